"""The inventory mirror and what has room on it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.cluster import selectors, services
from apps.cluster.models import Gpu
from apps.cluster.specs import Card, Holder, Inventory
from apps.core.share import GIB, GpuShare
from tests.conftest import Clock
from tests.fakes.cluster import H100, L40S, FakeCluster

SLICE = GpuShare(1, 8 * GIB, 300, 300)


def inventory(clock: Clock, *cards: Card, **fields: Any) -> Inventory:
    return Inventory("fake", clock.now, cards, 8000, 64 * GIB, "single_account", **fields)


def holding(card: Card, *shares: tuple[int, int]) -> Card:
    return replace(
        card,
        holders=tuple(Holder(f"w{n}", memory * GIB, compute, compute) for n, (memory, compute) in enumerate(shares)),
    )


@pytest.mark.django_db
def test_the_mirror_shows_what_the_driver_said_and_says_whether_it_changed(stopped_clock: Clock) -> None:
    assert services.mirror_inventory(inventory(stopped_clock, H100, holding(L40S, (8, 300))))
    first = selectors.gpus().get(uuid="GPU-l40s")
    assert (first.allocated_memory, first.allocated_compute) == (8 * GIB, 300)
    stopped_clock.tick(seconds=15)
    assert not services.mirror_inventory(inventory(stopped_clock, H100, holding(L40S, (8, 300))))
    site = selectors.site()
    assert site is not None
    assert site.observed_at == stopped_clock.now


@pytest.mark.django_db
def test_cards_that_fell_ill_or_vanished_are_shown_so(stopped_clock: Clock) -> None:
    services.mirror_inventory(inventory(stopped_clock, H100, L40S))
    ill = replace(H100, healthy=False, health_reason="Xid 79")
    assert services.mirror_inventory(inventory(stopped_clock, ill))
    assert [(gpu.uuid, gpu.healthy, gpu.health_reason) for gpu in selectors.gpus()] == [("GPU-h100", False, "Xid 79")]


@pytest.mark.django_db
def test_before_anybody_has_looked_nothing_is_known() -> None:
    room = selectors.room(SLICE)
    assert (room.known, room.fits_now, room.ever) == (False, False, True)


@pytest.mark.django_db
def test_room_counts_memory_and_compute_and_names_the_largest_that_fits(stopped_clock: Clock) -> None:
    services.mirror_inventory(inventory(stopped_clock, holding(H100, (60, 200), (15, 100)), holding(L40S, (8, 900))))
    room = selectors.room(SLICE)
    assert (room.fits_now, room.ever) == (False, True)
    assert room.largest == SLICE.__class__(1, 8 * GIB, 100, 300)
    assert room.evidence["room_bytes"] == 8 * GIB
    assert [card["free_permille"] for card in room.evidence["cards"]] == [700, 100]
    assert room.evidence["cards"][0]["holders"][0]["uid"] == "w0"


@pytest.mark.django_db
def test_what_no_card_could_hold_is_told_with_what_one_could(stopped_clock: Clock) -> None:
    services.mirror_inventory(inventory(stopped_clock, H100, L40S))
    room = selectors.room(GpuShare(1, 100 * GIB, 300, 300))
    assert not room.ever
    assert room.largest_ever == GpuShare(1, 79 * GIB, 300, 300)
    three = selectors.room(GpuShare(3, GIB, 100, 100))
    assert (three.ever, three.largest_ever) == (False, GpuShare(2, GIB, 100, 100))


@pytest.mark.django_db
def test_cards_of_different_machines_do_not_add_up(stopped_clock: Clock) -> None:
    services.mirror_inventory(inventory(stopped_clock, H100, replace(L40S, node="there")))
    assert not selectors.room(GpuShare(2, GIB, 100, 100)).ever


@pytest.mark.django_db
def test_an_ill_card_has_no_room(stopped_clock: Clock) -> None:
    services.mirror_inventory(inventory(stopped_clock, replace(H100, healthy=False)))
    room = selectors.room(SLICE)
    assert (room.fits_now, room.ever, room.largest_ever, room.evidence["gpus"]) == (False, False, None, 0)


held = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 400)), max_size=4)
shares = st.builds(
    lambda count, memory, compute: GpuShare(count, memory * GIB, compute, compute),
    st.integers(1, 3), st.integers(1, 90), st.integers(1, 1000),
)  # fmt: skip


@given(st.lists(held, min_size=1, max_size=3), shares)
def test_what_is_proposed_as_largest_fits_and_what_fits_fits_ever(
    cards: list[list[tuple[int, int]]], share: GpuShare
) -> None:
    gpus = [
        Gpu(
            uuid=str(n),
            node="n",
            index=n,
            memory=79 * GIB,
            holders=[{"memory": m * GIB, "compute": c} for m, c in holders],
        )
        for n, holders in enumerate(cards)
    ]
    room = selectors.room_on(share, gpus)
    assert not room.fits_now or room.ever
    assert room.fits_now == (room.largest == share)
    if room.largest is not None:
        assert selectors.room_on(room.largest, gpus).fits_now
    if room.largest_ever is not None:
        assert selectors.room_on(
            room.largest_ever, [Gpu(uuid=g.uuid, node="n", memory=g.memory, holders=[]) for g in gpus]
        ).fits_now


def test_a_driver_is_named_by_the_settings(settings: Any) -> None:
    settings.CLUSTER_DRIVER = "tests.fakes.cluster.FakeCluster"
    assert isinstance(services.connect(), FakeCluster)
    settings.CLUSTER_DRIVER = "magic"
    with pytest.raises(ImproperlyConfigured, match="magic"):
        services.connect()


@pytest.mark.django_db
def test_the_mirror_costs_few_queries_where_nothing_changed(
    stopped_clock: Clock, django_assert_max_num_queries: Any
) -> None:
    cards = [replace(H100, uuid=f"GPU-{n}", index=n) for n in range(16)]
    services.mirror_inventory(inventory(stopped_clock, *cards))
    stopped_clock.tick(seconds=timedelta(seconds=15).total_seconds())
    with django_assert_max_num_queries(8):
        services.mirror_inventory(inventory(stopped_clock, *cards))


@given(
    st.lists(st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=5), max_size=6), st.sets(st.integers(0, 5))
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.django_db
def test_a_mirror_that_remembers_shows_what_one_that_looks_shows(
    stopped_clock: Clock, looks: list[dict[int, int]], forgets: set[int]
) -> None:
    """`looks` are what is seen each time: cards with how many holders."""
    Gpu.objects.all().delete()
    mirror = services.Mirror()
    before: set[str] | None = None
    for number, seen in enumerate(looks):
        cards = [holding(replace(H100, uuid=f"GPU-{n}", index=n), *[(1, 100)] * holders) for n, holders in seen.items()]
        if number in forgets:
            mirror.forget()
        changed = mirror.show(inventory(stopped_clock, *cards))
        assert before is None or changed == (before != set(map(repr, cards)))
        before = set(map(repr, cards))
        assert {gpu.uuid: len(gpu.holders) for gpu in selectors.gpus()} == {f"GPU-{n}": h for n, h in seen.items()}


@pytest.mark.django_db
def test_what_could_not_be_written_is_not_taken_for_written(
    stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = services.Mirror()
    mirror.show(inventory(stopped_clock, H100))
    with monkeypatch.context() as broken:
        broken.setattr(services, "_mirror_site", lambda _inventory: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mirror.show(inventory(stopped_clock, H100, L40S))
    assert mirror.show(inventory(stopped_clock, H100, L40S))
    assert selectors.gpus().count() == 2
