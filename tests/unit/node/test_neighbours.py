"""Who counts as a busy neighbour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.neighbours import Neighbours, Uncounted, neighbours_of

ALL = 1000  # per mille: a claim that may use the whole card


def test_only_active_processes_of_other_claims_are_neighbours() -> None:
    active = {"mine": [1.0, 0.7], "theirs": [0.5, 0.01], "third": [0.25]}
    found = neighbours_of("mine", active, dict.fromkeys(active, ALL), {})
    assert found.others == 2
    assert found.phi_ppm == 1_750_000


def test_alone_phi_is_one() -> None:
    assert neighbours_of("mine", {"mine": [1.0]}, {"mine": 300}, {}).phi_ppm == 1_000_000


def test_a_process_without_the_library_is_a_full_neighbour_of_all_but_its_own_claim() -> None:
    uncounted = {4711: None, 4712: "mine"}
    assert neighbours_of("mine", {}, {}, uncounted) == Neighbours(1, 2_000_000)
    assert neighbours_of("theirs", {}, {}, uncounted) == Neighbours(2, 3_000_000)


def test_a_claim_with_work_in_its_queue_all_the_time_takes_no_more_than_its_share() -> None:
    found = neighbours_of("mine", {"mine": [1.0], "theirs": [1.0]}, {"mine": 600, "theirs": 300}, {})
    assert found == Neighbours(1, round(1_000_000 / 0.7))


def test_a_claim_that_is_seldom_busy_takes_what_it_uses_and_not_its_share() -> None:
    found = neighbours_of("mine", {"mine": [1.0], "theirs": [0.25]}, {"mine": 100, "theirs": 900}, {})
    assert found == Neighbours(1, 1_250_000)


PARTS = st.lists(st.floats(0, 1), max_size=4)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(PARTS, st.integers(1, 1000))), st.integers(0, 3))
def test_nobody_is_slowed_by_more_than_the_turns_of_all_others(
    claims: dict[str, tuple[list[float], int]], strangers: int
) -> None:
    active, shares = ({name: claim[at] for name, claim in claims.items()} for at in (0, 1))
    found = neighbours_of("mine", active, shares, dict.fromkeys(range(strangers)))  # type: ignore[arg-type]
    assert 1_000_000 <= found.phi_ppm <= (1 + found.others) * 1_000_000


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
