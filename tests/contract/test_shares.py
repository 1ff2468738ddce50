"""Shares of GPUs: given where there is room, never more than there is, waited for in order, and given back."""

from collections.abc import AsyncIterator

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import Card, Inventory, RunState
from apps.core.share import GIB, GpuShare
from tests.contract.conftest import Place
from tests.contract.watching import Watcher, facts

THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=1000)
MOST = GpuShare(count=1, memory=20 * GIB, compute=600, ceiling=600)
WHOLE = GpuShare(count=1, memory=8 * GIB, compute=1000, ceiling=1000)


@pytest.fixture(autouse=True)
async def h100(place: Place) -> AsyncIterator[None]:
    async with place.cards("h100"):
        yield


async def only_card(cluster: Cluster) -> Card:
    inventory = await cluster.inventory()
    assert isinstance(inventory, Inventory)
    (card,) = inventory.cards
    assert card.free_memory >= 0
    assert card.free_compute >= 0
    return card


async def test_a_share_is_placed_held_and_given_back(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", gpu=THIRD))
    ready = await watch.until("a", RunState.READY)
    card = await only_card(cluster)
    assert ready.cards == (card.uuid,)
    assert [(h.uid, h.memory, h.compute, h.ceiling) for h in card.holders] == [("a", 8 * GIB, 300, 1000)]
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    await cluster.apply(place.spec("b", gpu=WHOLE))
    await watch.until("b", RunState.READY)
    card = await only_card(cluster)
    assert [(h.uid, h.memory) for h in card.holders] == [("b", card.memory)]


async def test_a_run_without_a_share_is_told_of_no_gpu(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    assert (await facts(cluster, "a"))["environment"]["CUDA_VISIBLE_DEVICES"] == ""
    assert (await only_card(cluster)).holders == ()


async def test_what_has_no_room_waits_says_for_what_and_begins_when_there_is_room(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    for uid, share in (("a", MOST), ("b", THIRD)):
        await cluster.apply(place.spec(uid, gpu=share))
        await watch.until(uid, RunState.READY)
    await cluster.apply(place.spec("c", gpu=THIRD))
    waiting = await watch.until("c", RunState.WAITING, "waiting_card")
    assert waiting.evidence["compute_permille"] == 300
    assert waiting.evidence["room_permille"] == 100
    holders = waiting.evidence["cards"][0]["holders"]
    assert {(h["uid"], h["compute"]) for h in holders} == {("a", 600), ("b", 300)}
    await cluster.delete("b", grace_seconds=5)
    await watch.until("c", RunState.READY)
    assert {h.uid for h in (await only_card(cluster)).holders} == {"a", "c"}


async def test_a_small_share_passes_a_large_one_that_has_no_room(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", gpu=MOST))
    await watch.until("a", RunState.READY)
    await cluster.apply(place.spec("large", gpu=WHOLE))
    await watch.until("large", RunState.WAITING, "waiting_card")
    await cluster.apply(place.spec("small", gpu=THIRD))
    await watch.until("small", RunState.READY)
    for uid in ("a", "small"):
        await cluster.delete(uid, grace_seconds=5)
    await watch.until("large", RunState.READY)


async def test_of_those_that_wait_the_oldest_goes_first(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", gpu=WHOLE))
    await watch.until("a", RunState.READY)
    for uid in ("first", "second"):
        await cluster.apply(place.spec(uid, gpu=MOST))
        await watch.until(uid, RunState.WAITING, "waiting_card")
    await cluster.delete("a", grace_seconds=5)
    await watch.until("first", RunState.READY)
    assert (await cluster.get("second")).state is RunState.WAITING


async def test_what_waits_can_be_deleted(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", gpu=WHOLE))
    await watch.until("a", RunState.READY)
    await cluster.apply(place.spec("b", gpu=THIRD))
    await watch.until("b", RunState.WAITING, "waiting_card")
    await cluster.delete("b", grace_seconds=5)
    await watch.until("b", RunState.EXITED)
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    await cluster.apply(place.spec("c", gpu=WHOLE))
    await watch.until("c", RunState.READY)
    assert watch.states("b")[-1] is RunState.EXITED


async def test_what_no_card_could_hold_says_so(place: Place, cluster: Cluster, watch: Watcher) -> None:
    huge = GpuShare(count=1, memory=500 * GIB, compute=100, ceiling=100)
    await cluster.apply(place.spec("a", gpu=huge))
    never = await watch.until("a", RunState.WAITING, "never_fits_card")
    assert never.evidence["largest_bytes"] == (await only_card(cluster)).memory


async def test_shares_of_the_same_instant_never_exceed_the_card(place: Place, cluster: Cluster, watch: Watcher) -> None:
    uids = [f"r{number}" for number in range(5)]
    for uid in uids:
        await cluster.apply(place.spec(uid, gpu=THIRD))
    for uid in uids[:3]:
        await watch.until(uid, RunState.READY)
    for uid in uids[3:]:
        await watch.until(uid, RunState.WAITING, "waiting_card")
    assert (await only_card(cluster)).free_compute == 100


async def test_figures_come_for_the_card_and_for_the_run(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.READY)
    card = await only_card(cluster)
    wanted = {f"card:{card.uuid}", f"run:a:{card.uuid}"}
    async for batch in cluster.samples():
        samples = {sample.subject: sample for sample in batch}
        if wanted <= samples.keys():
            break
    assert samples[f"run:a:{card.uuid}"].memory_limit == 8 * GIB
    assert samples[f"card:{card.uuid}"].memory_limit == card.memory
