"""The lender's promises hold for every set of claims on a card."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.lender import Want, lend, usable


def want(
    key: str,
    guarantee: int,
    *,
    ceiling: int = 1000,
    share: int | None = None,
    used: int = 0,
    waiting: bool = False,
    active: float = 0.0,
) -> Want:
    return Want(
        key=key,
        guarantee=guarantee,
        ceiling=ceiling,
        share=guarantee if share is None else share,
        used=used,
        waiting=waiting,
        active=active,
    )


@st.composite
def cards(draw: st.DrawFn) -> list[Want]:
    """Claims whose guarantees fit on the card, in any state."""
    found: list[Want] = []
    left = 1000
    for number in range(draw(st.integers(1, 12))):
        if left < 1:
            break
        guarantee = draw(st.integers(1, left))
        left -= guarantee
        ceiling = draw(st.integers(guarantee, 1000))
        found.append(
            want(
                f"claim-{number}",
                guarantee,
                ceiling=ceiling,
                share=draw(st.integers(guarantee, ceiling)),
                used=draw(st.integers(0, 5000)),
                waiting=draw(st.booleans()),
                active=draw(st.floats(0, 1)),
            )
        )
    return found


@given(cards())
def test_every_share_lies_between_guarantee_and_ceiling(wants: list[Want]) -> None:
    shares = lend(wants)
    assert shares.keys() == {w.key for w in wants}
    assert all(w.guarantee <= shares[w.key] <= w.ceiling for w in wants)


@given(cards())
def test_expected_use_never_exceeds_the_card(wants: list[Want]) -> None:
    shares = lend(wants)
    assert sum(shares[w.key] if w.hungry else w.reserve for w in wants) <= 1000


@given(cards())
def test_nothing_is_lent_to_those_who_do_not_want_it(wants: list[Want]) -> None:
    shares = lend(wants)
    assert all(shares[w.key] == w.guarantee for w in wants if not w.hungry)


@given(cards(), st.randoms())
def test_the_order_of_claims_does_not_matter(wants: list[Want], random: Random) -> None:
    shuffled = list(wants)
    random.shuffle(shuffled)
    assert lend(shuffled) == lend(wants)


@given(cards())
def test_idle_time_is_not_left_lying_while_somebody_can_take_it(wants: list[Want]) -> None:
    few = wants[:4]  # four rounds saturate at most four claims
    shares = lend(few)
    spare = usable(few) - sum(shares[w.key] if w.hungry else w.reserve for w in few)
    assert spare <= 0 or all(shares[w.key] == w.ceiling for w in few if w.hungry)


def test_an_idle_neighbour_lends_all_but_a_margin() -> None:
    shares = lend([want("busy", 300, waiting=True), want("idle", 600)])
    assert shares == {"busy": 980, "idle": 600}


def test_a_lender_that_wakes_has_its_guarantee_back_in_the_next_round() -> None:
    shares = lend([want("busy", 300, share=980, used=980), want("woken", 600, waiting=True, ceiling=600)])
    assert shares == {"busy": 360, "woken": 600}


def test_what_changes_between_claims_cost_is_lent_to_nobody() -> None:
    """Else a loan would take from the guarantee beside it; alone on a card there are no changes."""
    both = [want("guaranteed", 600, waiting=True, ceiling=600), want("borrower", 300, waiting=True)]
    assert sum(lend(both).values()) == 960
    assert lend(both[1:]) == {"borrower": 1000}
    full = [want("a", 500, waiting=True), want("b", 500, waiting=True)]
    assert lend(full) == {"a": 500, "b": 500}, "guarantees stay what they are"


def test_two_hungry_claims_share_the_rest_by_their_guarantees() -> None:
    shares = lend([want("small", 100, waiting=True), want("large", 300, waiting=True)])
    assert shares == {"small": 240, "large": 720}


def test_what_a_ceiling_stops_goes_to_the_other() -> None:
    shares = lend([want("capped", 300, ceiling=350, waiting=True), want("free", 300, waiting=True)])
    assert shares == {"capped": 350, "free": 610}


def test_a_program_that_waits_for_the_card_rather_than_for_us_is_no_lender() -> None:
    assert want("synchronous", 600, used=100, active=0.5).hungry
    assert not want("resting", 600, used=100, active=0.49).hungry


def test_a_lender_keeps_a_quarter_more_than_it_used() -> None:
    assert want("lender", 600, used=200).reserve == 270
    assert want("lender", 200, used=170).reserve == 200
