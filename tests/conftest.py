"""What every test may use: people and tenants (`world`), a clock that stands still until told."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.core import clock
from tests.factories import World
from tests.factories import world as make_world


class Clock:
    """Starts on a fixed day; moves only by `tick`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def tick(self, **delta: float) -> datetime:
        self.now += timedelta(**delta)
        return self.now


@pytest.fixture
def stopped_clock() -> Iterator[Clock]:
    made = Clock()
    with clock.installed(made):
        yield made


@pytest.fixture
def world(db: None) -> World:
    return make_world()


@pytest.fixture
def bell_dir(settings: Settings, tmp_path: Path) -> Path:
    """A bell folder for this test alone."""
    settings.BELL_DIR = tmp_path / "bells"
    return tmp_path / "bells"
