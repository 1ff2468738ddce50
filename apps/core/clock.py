"""The one source of wall-clock time. Tests install their own clock; nothing else asks the system for "now"."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

_now: Callable[[], datetime] = lambda: datetime.now(UTC)  # noqa: E731 - a variable, replaced as a whole


def now() -> datetime:
    """Aware, in UTC."""
    return _now()


@contextmanager
def installed(clock: Callable[[], datetime]) -> Iterator[None]:
    """Use `clock` for every `now()` of this process while the block runs."""
    global _now  # noqa: PLW0603 - one process, one clock
    previous, _now = _now, clock
    try:
        yield
    finally:
        _now = previous
