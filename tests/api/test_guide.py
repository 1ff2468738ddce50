"""The commands of docs/user/api.md, run one after the other in one shell against a live server, answer what the guide says."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.api.problem_kinds import KINDS
from tests.api.server import PATIENCE, Server

GUIDE = Path(settings.BASE_DIR) / "docs" / "user" / "api.md"
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Example:
    command: str
    answer: Any = None


def _examples() -> list[Example]:
    found: list[Example] = []
    for language, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if language == "sh":
            found.append(Example(text))
        else:
            found[-1].answer = json.loads(text)
    return found


def _difference(told: Any, answered: Any, at: str = "") -> str:
    """Where `answered` lacks what the guide tells; "" where it holds. "…" stands for anything."""
    if told == "…":
        return ""
    if isinstance(told, dict) and isinstance(answered, dict):
        for key, value in told.items():
            found = _difference(value, answered[key], f"{at}.{key}") if key in answered else f"{at}.{key} is missing"
            if found:
                return found
        return ""
    if isinstance(told, list) and isinstance(answered, list) and len(told) == len(answered):
        return next(filter(None, (_difference(*pair, f"{at}[]") for pair in zip(told, answered, strict=True))), "")
    return "" if told == answered else f"{at} is {answered!r}, the guide tells {told!r}"


def test_every_command_of_the_guide_answers_as_told(server: Server, tmp_path: Path) -> None:
    examples = _examples()
    assert len(examples) > 20
    blocks = [f"{{\n{example.command}}} > {tmp_path}/{number}\n" for number, example in enumerate(examples)]
    given = {
        "PATH": os.environ["PATH"],
        "TESSERA": server.url,
        "TOKEN": server.member,
        "OPERATOR_TOKEN": server.operator,
        "LANG": "C.UTF-8",
    }
    script = "set -euo pipefail\n" + "".join(blocks)
    done = subprocess.run(["bash", "-c", script], env=given, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    for number, example in enumerate(examples):
        output = (tmp_path / str(number)).read_text(encoding="utf-8")
        if example.answer is not None:
            difference = _difference(example.answer, json.loads(output))
            assert not difference, f"{example.command}\nanswered\n{output}\nbut{difference}"


def test_the_followed_output_ends_with_the_run(server: Server, tmp_path: Path) -> None:
    """What the guide's example of an event stream shows, in full."""
    script = _examples()[0].command + _made_and_stopped() + 'api "$EXPERIMENT/logs" -N -H "Accept: text/event-stream"'
    given = {"PATH": os.environ["PATH"], "TESSERA": server.url, "TOKEN": server.member}
    done = subprocess.run(
        ["bash", "-c", script], env=given, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    events = re.findall(r"^event: (\w+)$", done.stdout, re.MULTILINE)
    assert events == ["log", "end"]
    assert "JupyterLab" in done.stdout


def _made_and_stopped() -> str:
    asked = '{"tenant": "vision-lab", "name": "x", "environment": "notebook", "flavour": "cpu"}'
    return (
        f"EXPERIMENT=$(api experiments -o /dev/null -w '%header{{location}}' -d '{asked}')\n"
        'EXPERIMENT=${EXPERIMENT#/api/v1/}\napi "$EXPERIMENT/stop" -X POST -d "{}"\n'
    )


def test_the_guide_names_every_kind_of_problem() -> None:
    table = set(re.findall(r"`([a-z_]+)`", GUIDE.read_text(encoding="utf-8")))
    assert set(KINDS) <= table
