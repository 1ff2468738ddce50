"""Another share for a run that goes on running: limits follow, refusals say what there is and change nothing, restarts forget nothing."""

from collections.abc import AsyncIterator

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import Resizing, RunState
from apps.core.errors import Conflict, NotFound
from apps.core.share import GIB, GpuShare
from tests.contract.conftest import Place
from tests.contract.test_shares import only_card
from tests.contract.watching import Watcher, facts

GIVEN = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=1000)
SMALLER = GpuShare(count=1, memory=2 * GIB, compute=300, ceiling=400)
NEIGHBOUR = GpuShare(count=1, memory=60 * GIB, compute=600, ceiling=600)


@pytest.fixture(autouse=True)
async def h100(place: Place) -> AsyncIterator[None]:
    async with place.cards("h100"):
        yield


@pytest.fixture
async def begun(place: Place, cluster: Cluster, watch: Watcher) -> int:
    """Its program's process."""
    await cluster.apply(place.spec("a", gpu=GIVEN))
    await watch.until("a", RunState.READY)
    return int((await facts(cluster, "a"))["pid"])


async def limit_told(cluster: Cluster, uid: str, memory: int) -> None:
    """Until the figures of this run tell this limit."""
    async for batch in cluster.samples():
        if any(sample.subject.startswith(f"run:{uid}:") and sample.memory_limit == memory for sample in batch):
            return


async def test_a_share_is_made_smaller_and_as_large_again_while_its_program_runs(cluster: Cluster, begun: int) -> None:
    kept = await cluster.resize("a", 1, SMALLER)
    assert (kept.count, kept.compute, kept.ceiling) == (1, 300, 400)
    assert kept.memory in (2 * GIB, 8 * GIB), "what is kept is the new limit, or what was given for good"
    await limit_told(cluster, "a", 2 * GIB)
    assert await cluster.resize("a", 1, GIVEN) == GIVEN
    await limit_told(cluster, "a", 8 * GIB)
    assert (await facts(cluster, "a"))["pid"] == begun


async def test_the_same_again_changes_nothing(cluster: Cluster, begun: int) -> None:
    assert begun
    assert await cluster.resize("a", 1, SMALLER) == await cluster.resize("a", 1, SMALLER)
    await limit_told(cluster, "a", 2 * GIB)


async def test_more_than_there_is_room_for_is_refused_and_changes_nothing(
    place: Place, cluster: Cluster, watch: Watcher, begun: int
) -> None:
    assert begun
    await cluster.apply(place.spec("b", gpu=NEIGHBOUR))
    await watch.until("b", RunState.READY)
    before = (await only_card(cluster)).holders
    with pytest.raises(Conflict) as refusal:
        await cluster.resize("a", 1, GpuShare(count=1, memory=30 * GIB, compute=300, ceiling=1000))
    assert refusal.value.code in ("resize_card", "resize_claim")
    assert 8 * GIB <= refusal.value.evidence["room_bytes"] < 30 * GIB
    assert (await only_card(cluster)).holders == before
    await limit_told(cluster, "a", 8 * GIB)


async def test_what_is_possible_here_is_what_the_inventory_says(
    place: Place, cluster: Cluster, watch: Watcher, begun: int
) -> None:
    assert begun
    larger = GpuShare(count=1, memory=30 * GIB, compute=500, ceiling=500)
    can = (await cluster.inventory()).resizing
    assert can in (Resizing.WITHIN, Resizing.FULL)
    if can is Resizing.WITHIN:
        with pytest.raises(Conflict) as refusal:
            await cluster.resize("a", 1, larger)
        assert (refusal.value.code, refusal.value.evidence["room_bytes"]) == ("resize_claim", 8 * GIB)
        return
    assert await cluster.resize("a", 1, larger) == larger
    await cluster.apply(place.spec("b", gpu=NEIGHBOUR))
    await watch.until("b", RunState.WAITING, "waiting_card")
    await cluster.resize("a", 1, SMALLER)
    await watch.until("b", RunState.READY)  # what became free is given to whoever waits


@pytest.mark.parametrize(
    "other",
    [GpuShare(count=2, memory=GIB, compute=100, ceiling=100), GpuShare(1, 8 * GIB, 1000, 1000)],
    ids=["another number of GPUs", "a whole GPU"],
)
async def test_neither_the_number_of_gpus_nor_exclusiveness_changes(
    cluster: Cluster, begun: int, other: GpuShare
) -> None:
    assert begun
    with pytest.raises(Conflict) as refusal:
        await cluster.resize("a", 1, other)
    assert refusal.value.code == "resize_not_offered"


async def test_only_a_run_that_has_cards_has_limits(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    for uid, run in (("a", 1), ("nobody", 1)):
        with pytest.raises(NotFound):
            await cluster.resize(uid, run, SMALLER)


async def test_an_earlier_run_is_not_taken_for_this_one(cluster: Cluster, begun: int) -> None:
    assert begun
    with pytest.raises(NotFound):
        await cluster.resize("a", 2, SMALLER)


async def test_a_driver_that_starts_anew_knows_the_share_as_it_is(place: Place, cluster: Cluster, begun: int) -> None:
    assert begun
    await cluster.resize("a", 1, SMALLER)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    (spec,) = await successor.specs()
    assert spec.resources.gpu == SMALLER
    assert await successor.resize("a", 1, GIVEN) == GIVEN
    await successor.close()
