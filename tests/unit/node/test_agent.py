"""The wiring of the agent, as far as it decides something."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.node.claimed import CARD, MS, SECOND_CARD, look, make_node
from vcuda.node.agent import Agent, Driver, Life
from vcuda.node.nvml import Look, NoDriver
from vcuda.node.options import Options
from vcuda.node.state import make_state


@dataclass
class StandingClock:
    at_ns: int = 0

    def now_ns(self) -> int:
        return self.at_ns

    def enter(self) -> None:
        """Nobody sleeps here."""

    def sleep_until(self, at_ns: int) -> None:
        self.at_ns = at_ns

    def wall(self, at_ns: int) -> datetime:
        return datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)

    def driver_us(self, at_ns: int) -> int:
        return at_ns // 1000


async def test_a_card_that_was_not_seen_for_a_while_is_not_trusted(tmp_path: Path) -> None:
    node, clock = make_node(tmp_path), StandingClock()
    options = Options(state=tmp_path, socket=tmp_path / "s", libraries=tmp_path)
    agent = Agent(node, Driver(NoDriver(), clock, None, simulated=True), options, Life())
    node.tick({CARD: look(), SECOND_CARD: Look(fault="gpu_lost")}, 100 * MS)
    clock.at_ns = 9_000 * MS
    assert agent._illness() == {CARD: "", SECOND_CARD: "gpu_lost"}
    clock.at_ns = 10_200 * MS
    assert agent._illness() == {CARD: "late", SECOND_CARD: "gpu_lost"}


@pytest.mark.parametrize(("closed", "mode"), [(False, 0o711), (True, 0o700)])
def test_claims_of_containers_are_closed_to_everybody_else(tmp_path: Path, closed: bool, mode: int) -> None:
    make_state(tmp_path / "state", closed=False)  # by an agent of this machine alone, before
    claims = make_state(tmp_path / "state", closed=closed)
    assert stat.S_IMODE(claims.stat().st_mode) == mode
