"""The driver's windows: what is new, what holds, what is idle, what is unknown."""

from __future__ import annotations

import pytest

from vcuda.node.nvml import Busy, Look
from vcuda.node.utilisation import Utilisation, unrounded

MS = 1_000_000
WINDOW_US = 166_667


def look(number: int, percents: dict[int, int], *, card: int = 50) -> Look:
    return Look(percent=card, busy=[Busy(pid, percent, number * WINDOW_US) for pid, percent in percents.items()])


def quiet(card: int = 50) -> Look:
    return Look(percent=card, busy=[])


def test_what_is_between_two_windows_ends_is_measured() -> None:
    card = Utilisation()
    assert card.feed(look(10, {1: 30}), 1000 * MS) is None
    measured = card.feed(look(11, {1: 40, 2: 20}, card=60), 1200 * MS)
    assert measured is not None
    assert measured.length_ns == WINDOW_US * 1000
    assert measured.busy_ns == {1: WINDOW_US * 400, 2: WINDOW_US * 200}
    assert measured.coherent


def test_many_small_processes_do_not_seem_busier_than_the_card() -> None:
    """Sixteen with 2.6 % each are told as 3 %; beside one of 50 % the card says 92 %."""
    percents = dict.fromkeys(range(16), 3) | {99: 50}
    balanced = unrounded(percents, 92)
    assert sum(balanced.values()) == pytest.approx(92)
    assert sum(balanced[pid] for pid in range(16)) == pytest.approx(16 * 2.6, abs=1), "and not 48"
    assert sum(unrounded(percents, None).values()) == 98


def test_many_small_ones_beside_a_large_one_take_the_rounding_that_is_theirs() -> None:
    """Sixteen of 0.625 % count as 1 % each; their neighbour of 90 % is off by half a point at most."""
    balanced = unrounded({**dict.fromkeys(range(16), 1), 99: 90}, 100)
    assert sum(balanced[pid] for pid in range(16)) == pytest.approx(10, abs=0.1), "and neither 16 nor 10.4"
    assert balanced[99] == pytest.approx(90, abs=0.1)


def test_more_than_rounding_is_left_as_the_driver_says() -> None:
    assert unrounded({1: 40, 2: 40}, 70) == {1: 40, 2: 40}
    assert unrounded({}, 3) == {}


def test_a_late_look_that_finds_two_windows_adds_them_up() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    both = Look(percent=80, busy=[Busy(1, 80, 12 * WINDOW_US), Busy(1, 20, 11 * WINDOW_US)])
    measured = card.feed(both, 1300 * MS)
    assert measured is not None
    assert measured.busy_ns == {1: WINDOW_US * 1000}
    assert card.of({1}) == 80


def test_windows_in_which_nobody_was_busy_count_as_idle_time() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 50}), 1000 * MS)
    card.feed(look(11, {1: 50}), 1200 * MS)
    measured = card.feed(look(15, {1: 50}), 1900 * MS)
    assert measured is not None
    assert measured.length_ns == 4 * WINDOW_US * 1000
    assert measured.busy_ns == {1: WINDOW_US * 500}


def test_the_same_window_stamped_a_little_later_is_not_new() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    again = Look(percent=50, busy=[Busy(1, 30, 10 * WINDOW_US + 40)])
    assert card.feed(again, 1100 * MS) is None
    assert card.newest_us == 10 * WINDOW_US


def test_processes_of_one_window_stay_together_whatever_the_jitter() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1000 * MS)
    card.feed(Look(percent=50, busy=[Busy(1, 30, 11 * WINDOW_US), Busy(2, 25, 11 * WINDOW_US + 3)]), 1200 * MS)
    assert card.percents == {1: 30, 2: 25}


@pytest.mark.parametrize(("card_percent", "coherent"), [(55, True), (60, True), (61, False), (39, False)])
def test_processes_and_card_must_agree_within_ten_points(card_percent: int, coherent: bool) -> None:
    card = Utilisation()
    card.feed(look(10, {1: 50}), 1000 * MS)
    measured = card.feed(look(11, {1: 30, 2: 20}, card=card_percent), 1200 * MS)
    assert measured is not None
    assert measured.coherent == coherent


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


def test_books_are_not_compared_over_time_in_which_nobody_looked() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1700 * MS)
    assert card.feed(look(30, {1: 30}), 5000 * MS) is None, "windows may have come and gone"
    assert card.feed(look(31, {1: 30}), 5200 * MS) is not None


def test_windows_that_nobody_saw_are_missed_also_where_none_is_told_afterwards() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1700 * MS)
    card.feed(quiet(card=0), 5000 * MS)
    assert card.feed(look(30, {1: 30}), 5100 * MS) is None


def test_a_time_without_an_answer_is_one_in_which_nobody_looked() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1700 * MS)
    for at in range(2000, 5000, 500):
        card.feed(Look(fault="gpu_lost"), at * MS)
    assert card.feed(look(30, {1: 30}), 5000 * MS) is None


def test_seconds_of_idleness_that_were_watched_are_measured_whole() -> None:
    """A claim of 10 % with kernels of 500 ms is idle for 4.5 s after each: part of a kernel stands on either side."""
    card = Utilisation()
    card.feed(look(9, {1: 30}), 1500 * MS)
    card.feed(look(10, {1: 30}), 1700 * MS)
    for at in range(1800, 5000, 100):
        assert card.feed(quiet(card=0), at * MS) is None
    measured = card.feed(look(30, {1: 60}), 5000 * MS)
    assert measured is not None
    assert measured.length_ns == 20 * WINDOW_US * 1000
    assert measured.busy_ns == {1: WINDOW_US * 600}, "of one window, the others were idle"


def test_how_long_a_window_is_must_have_been_seen() -> None:
    card = Utilisation()
    card.feed(look(10, {1: 30}), 1700 * MS)
    for at in range(1800, 5000, 100):
        card.feed(quiet(card=0), at * MS)
    assert card.feed(look(30, {1: 60}), 5000 * MS) is None
    assert card.feed(look(31, {1: 60}), 5200 * MS) is not None


def test_a_driver_without_figures_says_nothing_rather_than_zero() -> None:
    card = Utilisation()
    card.feed(Look(percent=50, busy=None), 1000 * MS)
    assert card.of({1}) is None


def test_a_fault_does_not_make_the_figures_unsupported() -> None:
    card = Utilisation()
    card.feed(Look(fault="gpu_lost"), 1000 * MS)
    assert card.supported
