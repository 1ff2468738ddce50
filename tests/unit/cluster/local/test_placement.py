"""Cards are chosen by best fit, and no card ever gives more than it has."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.local.placement import Grant, place, why_not
from apps.cluster.specs import Card, Holder
from apps.core.share import GIB, MIB, WHOLE, GpuShare


def card(uuid: str, memory: int = 79 * GIB, *, index: int = 0, holders: tuple[Holder, ...] = (), **more: bool) -> Card:
    return Card(
        uuid=uuid,
        node="here",
        index=index,
        model="H100",
        memory=memory,
        physical_memory=memory + GIB,
        holders=holders,
        **more,  # type: ignore[arg-type]
    )


def share(memory: int, compute: int, *, count: int = 1) -> GpuShare:
    return GpuShare(count=count, memory=memory, compute=compute, ceiling=WHOLE)


def held(memory: int, compute: int, uid: str = "other") -> Holder:
    return Holder(uid, memory, compute, compute)


def test_the_fuller_card_is_taken_so_that_the_empty_one_stays_whole() -> None:
    cards = [card("empty"), card("half", index=1, holders=(held(40 * GIB, 500),))]
    assert place(share(8 * GIB, 300), cards) == (Grant("half", 8 * GIB, 300, WHOLE),)


def test_of_empty_cards_the_smaller_one_is_taken() -> None:
    cards = [card("large"), card("small", 14 * GIB, index=1)]
    assert [grant.card for grant in place(share(8 * GIB, 300), cards) or ()] == ["small"]


def test_room_in_memory_alone_or_in_compute_alone_is_no_room() -> None:
    assert place(share(8 * GIB, 300), [card("a", holders=(held(MIB, 800),))]) is None
    assert place(share(8 * GIB, 300), [card("a", holders=(held(75 * GIB, 100),))]) is None


def test_a_whole_card_is_exclusive_and_has_all_memory() -> None:
    assert place(share(8 * GIB, WHOLE), [card("a", holders=(held(MIB, 1),))]) is None
    assert place(share(8 * GIB, WHOLE), [card("a")]) == (Grant("a", 79 * GIB, WHOLE, WHOLE),)


def test_several_cards_are_different_cards_or_none() -> None:
    two = share(8 * GIB, 300, count=2)
    assert place(two, [card("a")]) is None
    assert {grant.card for grant in place(two, [card("a"), card("b", index=1)]) or ()} == {"a", "b"}


def test_an_unhealthy_card_is_never_given() -> None:
    assert place(share(8 * GIB, 300), [card("a", healthy=False)]) is None
    assert why_not(share(8 * GIB, 300), [card("a", healthy=False)])[0] == "no_cards"


def test_the_evidence_names_room_and_holders() -> None:
    reason, evidence = why_not(share(8 * GIB, 300), [card("a", holders=(held(MIB, 800, "x"),))])
    assert reason == "waiting_card"
    assert evidence["room_permille"] == 200
    assert evidence["cards"][0]["holders"] == [{"uid": "x", "memory": MIB, "compute": 800}]


def test_what_no_card_holds_even_when_empty_never_fits() -> None:
    full = card("a", holders=(held(79 * GIB, WHOLE),))
    assert why_not(share(80 * GIB, 1), [full])[0] == "never_fits_card"
    assert why_not(share(79 * GIB, 1), [full])[0] == "waiting_card"
    assert why_not(share(8 * GIB, 1, count=2), [full])[0] == "never_fits_card"


shares = st.builds(
    share,
    memory=st.integers(MIB, 90 * GIB),
    compute=st.sampled_from([1, 100, 250, 333, 500, 999, WHOLE]),
    count=st.integers(1, 3),
)


@given(st.lists(shares, max_size=30), st.lists(st.sampled_from([14, 44, 79]), min_size=1, max_size=4))
def test_whatever_is_asked_no_card_gives_more_than_it_has(wanted: list[GpuShare], sizes: list[int]) -> None:
    cards = {f"card-{index}": card(f"card-{index}", gib * GIB, index=index) for index, gib in enumerate(sizes)}
    for number, each in enumerate(wanted):
        grants = place(each, cards.values())
        if grants is None:
            reason, _ = why_not(each, list(cards.values()))
            assert reason in ("waiting_card", "never_fits_card")
            continue
        assert len({grant.card for grant in grants}) == each.count
        for grant in grants:
            before = cards[grant.card]
            assert grant.memory >= each.memory
            assert not (each.exclusive and before.holders)
            holder = Holder(f"run-{number}", grant.memory, grant.compute, grant.ceiling)
            cards[grant.card] = replace(before, holders=(*before.holders, holder))
    for each_card in cards.values():
        assert each_card.free_memory >= 0
        assert each_card.free_compute >= 0
        whole = [holder for holder in each_card.holders if holder.compute == WHOLE]
        assert not whole or len(each_card.holders) == 1


@given(shares, st.lists(st.sampled_from([14, 44, 79]), min_size=1, max_size=4))
def test_it_waits_only_where_there_is_no_room(wanted: GpuShare, sizes: list[int]) -> None:
    cards = [card(f"card-{index}", gib * GIB, index=index) for index, gib in enumerate(sizes)]
    large_enough = sum(gib * GIB >= wanted.memory for gib in sizes)
    assert (place(wanted, cards) is not None) == (large_enough >= wanted.count)
