"""The busy share of a second: every window of the driver counts once, however the agent's ticks fall on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node.claimed import MS
from vcuda.node.gauge import Gauge
from vcuda.node.nvml import Busy, Look
from vcuda.node.utilisation import Utilisation

WINDOW_US = 500_000 // 3  # three of the driver's windows in half a second, six in one
PID = 7


def seconds(windows: Sequence[int], ticks_ns: Iterable[int]) -> list[int | None]:
    """What the gauge says each second of a driver whose windows (per cent, 0 is not listed) follow each other without a gap."""
    utilisation, gauge, told, full = Utilisation(), Gauge(), [], 1
    for now in ticks_ns:
        ended = [(i, p) for i, p in enumerate(windows) if (i + 1) * WINDOW_US * 1000 <= now]
        look = Look(
            percent=ended[-1][1] if ended else 0,
            busy=[Busy(PID, percent, (i + 1) * WINDOW_US) for i, percent in ended if percent],
        )
        measured = utilisation.feed(look, now)
        gauge.tick(None if measured is None else measured.busy_ns.get(PID, 0), measured, utilisation, now)
        if now >= full * 1000 * MS:
            told.append(gauge.take())
            full += 1
    return told


def every_tenth(count: int) -> list[int]:
    return [tick * 100 * MS for tick in range(1, count + 1)]


def test_no_window_counts_twice_because_two_ticks_saw_it() -> None:
    assert seconds([30, 90, 30] * 10, every_tenth(50))[1:] == pytest.approx([500] * 4, abs=2)


@given(
    windows=st.lists(st.integers(1, 100), min_size=60, max_size=60),
    late=st.lists(st.integers(0, 60), min_size=100, max_size=100),
)
def test_the_mean_over_any_time_is_the_windows_own(windows: list[int], late: list[int]) -> None:
    """Ticks come up to 60 ms late. Ten seconds hold sixty windows; the first only begins the count."""
    told = seconds(windows, [at + ms * MS for at, ms in zip(every_tenth(100), late, strict=True)])
    weights = [told[i] for i in range(1, 10)]
    assert mean(w for w in weights if w is not None) == pytest.approx(10 * mean(windows[6:60]), abs=40)


@given(late=st.lists(st.integers(0, 60), min_size=50, max_size=50))
def test_a_steady_share_shows_as_it_is_in_every_second(late: list[int]) -> None:
    told = seconds([60] * 30, [at + ms * MS for at, ms in zip(every_tenth(50), late, strict=True)])
    assert told[1:] == [600] * 4


def test_idle_time_counts_as_zero() -> None:
    """Busy for half of each second."""
    told = seconds([80, 80, 80, 0, 0, 0] * 5, every_tenth(50))
    assert told[1:] == pytest.approx([400] * 4, abs=70)


def test_a_driver_that_tells_nothing_gives_no_figure() -> None:
    utilisation, gauge = Utilisation(), Gauge()
    for now in every_tenth(10):
        gauge.tick(None, utilisation.feed(Look(percent=None, busy=None), now), utilisation, now)
    assert gauge.take() is None
