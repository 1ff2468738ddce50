"""What is asked for a claim is checked before anything is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.claims import (
    Claim,
    Held,
    Part,
    changed_record,
    check_name,
    check_room,
    new_record,
    parse_change,
    parse_claim,
    part_of,
)
from vcuda.node.errors import Conflict, Invalid
from vcuda.node.layout import COMPUTE_LIMITED, EXCLUSIVE, MEMORY_LIMITED

GIB = 1024**3
CARD, OTHER = "GPU-card", "GPU-other"
BODY: dict[str, Any] = {
    "devices": [{"uuid": CARD, "memory": 8 * GIB, "compute": 300, "ceiling": 500}],
    "uid": 300_001,
    "gid": 300_001,
}


def body(**device: Any) -> dict[str, Any]:
    return {**BODY, "devices": [{**BODY["devices"][0], **device}]}


def claim(name: str, *, memory: int = 8 * GIB, compute: int = 300, uuid: str = CARD) -> Claim:
    return Claim(name=name, parts=(Part(uuid=uuid, memory=memory, compute=compute, ceiling=1000),), uid=1, gid=1)


def held(name: str, *, memory: int, compute: int, uuid: str = CARD) -> Held:
    return Held(claim=name, part=Part(uuid=uuid, memory=memory, compute=compute, ceiling=1000), share=compute)


def test_a_claim_is_read_as_it_was_sent() -> None:
    assert parse_claim("a-1", BODY) == Claim(
        name="a-1", parts=(Part(uuid=CARD, memory=8 * GIB, compute=300, ceiling=500),), uid=300_001, gid=300_001
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".new-a", "-a", "a" * 101, "ä", "a b", "a\n"])
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        check_name(name)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {**BODY, "devices": []},
        {**BODY, "devices": [7]},
        {**BODY, "devices": BODY["devices"] * 2},
        {**BODY, "devices": [{**BODY["devices"][0], "uuid": f"GPU-{i}"} for i in range(17)]},
        {**BODY, "uid": -1},
        {**BODY, "gid": True},
        body(uuid="x" * 48),
        body(uuid=7),
        body(memory=1.5),
        body(memory=1023),
        body(compute=0),
        body(compute=501),
        body(ceiling=1001),
    ],
)
def test_bad_bodies_are_refused_with_a_sentence(wrong: object) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_claim("a", wrong)
    assert len(refusal.value.message) > 20


def test_a_change_replaces_what_it_names_and_keeps_the_rest() -> None:
    before = parse_claim("a", BODY)
    after = parse_change(before, {"devices": [{"uuid": CARD, "ceiling": 900}]})
    assert after.parts == (Part(uuid=CARD, memory=8 * GIB, compute=300, ceiling=900),)


def test_a_change_cannot_add_a_card() -> None:
    with pytest.raises(Invalid):
        parse_change(parse_claim("a", BODY), {"devices": [{"uuid": OTHER, "compute": 1}]})


def test_a_card_is_filled_to_its_last_byte_and_per_mille() -> None:
    present = [held("other", memory=72 * GIB, compute=700)]
    check_room(claim("a", memory=8 * GIB, compute=300), {CARD: 80 * GIB}, present)


@pytest.mark.parametrize(("memory", "compute"), [(8 * GIB + 1, 300), (8 * GIB, 301)])
def test_one_more_is_refused_with_what_is_left_and_who_holds_the_rest(memory: int, compute: int) -> None:
    present = [held("other", memory=72 * GIB, compute=700)]
    with pytest.raises(Conflict) as refusal:
        check_room(claim("a", memory=memory, compute=compute), {CARD: 80 * GIB}, present)
    assert refusal.value.code == "no_room"
    assert refusal.value.evidence == {"memory": 8 * GIB, "compute": 300, "holders": ["other"]}


def test_what_a_claim_has_already_does_not_stand_in_its_way() -> None:
    check_room(claim("a", compute=1000), {CARD: 80 * GIB}, [held("a", memory=8 * GIB, compute=300)])


def test_claims_on_other_cards_do_not_count() -> None:
    check_room(claim("a", compute=1000), {CARD: 80 * GIB}, [held("b", memory=GIB, compute=900, uuid=OTHER)])


def test_a_card_of_another_machine_is_refused() -> None:
    with pytest.raises(Invalid) as refusal:
        check_room(claim("a", uuid=OTHER), {CARD: 80 * GIB}, [])
    assert refusal.value.code == "no_such_card"


def test_a_whole_card_is_exclusive_and_its_time_is_not_metered() -> None:
    whole = Part(uuid=CARD, memory=GIB, compute=1000, ceiling=1000)
    assert new_record(whole).flags == MEMORY_LIMITED | EXCLUSIVE
    assert new_record(Part(uuid=CARD, memory=GIB, compute=999, ceiling=1000)).flags == MEMORY_LIMITED | COMPUTE_LIMITED


parts = st.integers(1, 1000).flatmap(
    lambda compute: st.builds(
        Part,
        uuid=st.just(CARD),
        memory=st.integers(1024**2, 2**50),
        compute=st.just(compute),
        ceiling=st.integers(compute, 1000),
    )
)


@given(parts)
def test_a_part_survives_its_record(part: Part) -> None:
    assert part_of(new_record(part)) == part


@given(parts, parts)
def test_a_changed_share_stays_within_the_new_bounds(before: Part, after: Part) -> None:
    record = changed_record(new_record(before), after)
    assert part_of(record) == after
    assert after.compute <= record.share <= after.ceiling
