"""What `manage.py up` shows: few lines, in colour where the terminal has it."""

import os
import re
import sys

_COLOURS = {"grey": 90, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "bold": 1}
# How our parts mark a line that somebody should see: Python's levels, structlog's, and nginx's.
_WORTH_SHOWING = re.compile(
    r"\b(WARNING|ERROR|CRITICAL)\b|\[(warn|warning|error|critical|crit|alert|emerg) *\]|^Traceback "
)
_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if _coloured else text


def say(text: str = "") -> None:
    print(text, flush=True)


def done(text: str) -> None:
    say(f"{paint('✓', 'green')} {text}")


def warn(text: str) -> None:
    say(f"{paint('!', 'yellow')} {text}")


def from_part(name: str, colour: str, line: str) -> None:
    say(f"{paint(f'{name:>10} │', colour)} {line}")


def worth_showing(line: str) -> bool:
    return _WORTH_SHOWING.search(line) is not None
