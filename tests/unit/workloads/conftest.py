from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.workloads import reach
from tests.factories import World
from tests.factories import world as make_world


@pytest.fixture(autouse=True)
def no_gateway() -> Iterator[None]:
    """Visits succeed at once, unless a test puts a gateway in the way."""
    before = reach.register(None)
    yield
    reach.register(before)


@pytest.fixture
def people(db: None, bell_dir: Path) -> World:
    return make_world()
