"""Who counts as a busy neighbour."""

from __future__ import annotations

from vcuda.node.neighbours import Uncounted, neighbours_of


def test_only_active_processes_of_other_claims_are_neighbours() -> None:
    active = {"mine": [1.0, 0.7], "theirs": [0.5, 0.01], "third": [0.25]}
    found = neighbours_of("mine", active, {})
    assert found.others == 2
    assert found.phi_ppm == 1_750_000


def test_alone_phi_is_one() -> None:
    assert neighbours_of("mine", {"mine": [1.0]}, {}).phi_ppm == 1_000_000


def test_a_process_without_the_library_is_a_full_neighbour_of_all_but_its_own_claim() -> None:
    uncounted = {4711: None, 4712: "mine"}
    assert neighbours_of("mine", {}, uncounted).others == 1
    assert neighbours_of("theirs", {}, uncounted).others == 2


def test_a_newcomer_counts_as_busy_until_two_windows_show_it_idle() -> None:
    strangers = Uncounted()
    assert strangers.busy({7}, {}, window_ended=False) == {7}
    assert strangers.busy({7}, {}, window_ended=True) == {7}  # this window may have begun before it
    assert strangers.busy({7}, {}, window_ended=True) == frozenset()


def test_a_known_idle_process_counts_again_once_the_driver_shows_it_busy() -> None:
    strangers = Uncounted()
    for _ in range(3):
        strangers.busy({7}, {}, window_ended=True)
    assert strangers.busy({7}, {7: 6}, window_ended=True) == {7}
    assert strangers.busy({7}, {7: 5}, window_ended=True) == frozenset()


def test_a_process_number_that_was_away_begins_anew() -> None:
    strangers = Uncounted()
    for _ in range(3):
        strangers.busy({7}, {}, window_ended=True)
    strangers.busy(frozenset(), {}, window_ended=True)
    assert strangers.busy({7}, {}, window_ended=True) == {7}
