"""New identifiers, in one place so that tests can make them predictable."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

_make: Callable[[], UUID] = uuid4


def new_id() -> UUID:
    return _make()


@contextmanager
def installed(make: Callable[[], UUID]) -> Iterator[None]:
    """Use `make` for every `new_id()` of this process while the block runs."""
    global _make  # noqa: PLW0603 - one process, one source
    previous, _make = _make, make
    try:
        yield
    finally:
        _make = previous
