"""The driver's windows: what is new, what holds, what is idle, what is unknown."""

from __future__ import annotations

from vcuda.node.nvml import Busy, Look
from vcuda.node.utilisation import Utilisation

MS = 1_000_000
WINDOW_US = 166_667


def look(number: int, percents: dict[int, int], *, card: int = 50) -> Look:
    return Look(percent=card, busy=[Busy(pid, percent, number * WINDOW_US) for pid, percent in percents.items()])


def quiet(card: int = 50) -> Look:
    return Look(percent=card, busy=[])


def test_a_window_that_follows_one_is_whole() -> None:
    card = Utilisation()
    assert card.feed(look(10, {1: 30}), 1000 * MS) is None
    measured = card.feed(look(11, {1: 40, 2: 20}), 1200 * MS)
    assert measured is not None
    assert measured.length_ns == WINDOW_US * 1000
    assert measured.percents == {1: 40, 2: 20}


def test_the_same_window_twice_is_not_new() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    assert card.feed(look(10, {1: 30}), 1100 * MS) is None
    assert card.newest_us == 10 * WINDOW_US


def test_figures_hold_until_the_next_window() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30, 2: 5}), 1000 * MS)
    card.feed(quiet(), 1100 * MS)
    assert card.of({1, 2}) == 35
    assert card.of({3}) == 0


def test_an_idle_card_means_idle_processes_at_once() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    card.feed(quiet(card=0), 1100 * MS)
    assert card.of({1}) == 0


def test_figures_do_not_hold_for_more_than_a_second() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    card.feed(quiet(), 2100 * MS)
    assert card.of({1}) == 0


def test_the_first_window_after_idleness_is_not_taken_for_a_long_one() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    card.feed(quiet(card=0), 1100 * MS)
    assert card.feed(look(15, {1: 30}), 1900 * MS) is None
    assert card.feed(look(16, {1: 30}), 2000 * MS) is not None


def test_a_gap_of_seconds_is_not_added_up() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    assert card.feed(look(30, {1: 30}), 1900 * MS) is None


def test_a_driver_without_figures_says_nothing_rather_than_zero() -> None:
    card = Utilisation()
    card.feed(Look(percent=50, busy=None), 1000 * MS)
    assert card.of({1}) is None


def test_a_fault_does_not_make_the_figures_unsupported() -> None:
    card = Utilisation()
    card.feed(Look(fault="gpu_lost"), 1000 * MS)
    assert card.supported
