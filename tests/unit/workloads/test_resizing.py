"""Another share while it runs: who may, what the quota is charged from when on, and who has the last word."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.audit.models import Event as Audited
from apps.cluster.specs import Resizing, RunState
from apps.core.errors import Conflict, InvalidInput, NotFound, NotPermitted, Unavailable
from apps.core.share import GIB, GpuShare, Resources
from apps.quotas import ledger
from apps.workloads import notices, resizing
from apps.workloads.models import Phase, Workload
from apps.workloads.resizing import Change
from tests.factories import World, quota
from tests.fakes.cluster import FakeCluster
from tests.unit.workloads.controlled import ask, controlled, in_phase, row, start, stop, until

pytestmark = pytest.mark.django_db(transaction=True)
LARGER, SMALLER = Change(memory=16 * GIB, compute=500, ceiling=600), Change(memory=2 * GIB, compute=100)


@sync_to_async
def resize(people: World, workload: Workload, change: Change, who: str = "member") -> Workload:
    return resizing.resize(actor=getattr(people, who), workload=workload, change=change)


@sync_to_async
def preview(people: World, workload: Workload, change: Change) -> resizing.Verdict:
    return resizing.preview(actor=people.member, workload=row(workload), change=change)


def charged(workload: Workload) -> tuple[int, int]:
    claim = ledger.held().get(workload_id=workload.id)
    return claim.gpu_memory, claim.gpu_compute


def settled(workload: Workload, memory: int) -> Any:
    """It has this share, the cluster has said so, and the quota is charged for it and nothing else."""

    def reached() -> bool:
        found = row(workload)
        return found.resize_from is None and found.gpu_memory == memory and charged(workload)[0] == memory

    return reached


async def running(people: World) -> Workload:
    """And seen on its card by the mirror."""
    asked = await ask(people)
    ready: Workload = await until(in_phase(asked, Phase.READY))
    await until(lambda: mirrored(asked))
    return ready


def mirrored(workload: Workload) -> bool:
    from apps.cluster.models import Gpu

    return any(holder["uid"] == workload.uid for gpu in Gpu.objects.all() for holder in gpu.holders)


async def test_it_grows_and_the_quota_is_charged_from_the_request_on(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        cluster.silent = True
        await resize(people, workload, LARGER)
        assert await sync_to_async(charged)(workload) == (16 * GIB, 500), "before the cluster has done anything"
        cluster.silent = False
        await until(settled(workload, 16 * GIB))
        assert cluster.runs[workload.uid].spec.resources.gpu == GpuShare(1, 16 * GIB, 500, 600)
    audited = await sync_to_async(lambda: Audited.objects.get(verb="experiment.resize"))()
    assert (audited.before["memory"], audited.after["memory"], audited.after["ceiling"]) == (8 * GIB, 16 * GIB, 600)


async def test_what_it_gives_back_is_free_only_once_the_cluster_has_done_it(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        cluster.silent = True
        await resize(people, workload, SMALLER)
        assert await sync_to_async(charged)(workload) == (8 * GIB, 300)
        cluster.silent = False
        await until(settled(workload, 2 * GIB))
        assert await sync_to_async(charged)(workload) == (2 * GIB, 100)


async def test_who_waits_for_quota_starts_when_another_one_becomes_smaller(people: World) -> None:
    await sync_to_async(quota)(people.lab, gpu_memory=12 * GIB, gpu_compute=1000)
    async with controlled(FakeCluster()):
        first = await running(people)
        second = await ask(people, actor=people.colleague)
        assert (await sync_to_async(row)(second)).phase == Phase.QUEUED
        await resize(people, first, Change(memory=4 * GIB))
        await until(in_phase(second, Phase.READY))


async def test_more_than_the_quota_is_refused_with_the_numbers_and_what_would_do(people: World) -> None:
    async with controlled(FakeCluster()):
        workload = await running(people)
        await ask(people, resources=Resources(GpuShare(1, 20 * GIB, 100, 100), 1000, 2 * GIB))
        with pytest.raises(Conflict) as refusal:
            await resize(people, workload, Change(memory=30 * GIB))
    evidence = refusal.value.evidence
    assert (refusal.value.code, evidence["dimension"]) == ("resize_quota", "gpu_memory")
    assert (evidence["asked"], evidence["used"], evidence["free"]) == (30 * GIB, 20 * GIB, 20 * GIB)
    assert evidence["nearest"]["gpu"]["memory"] == 20 * GIB
    assert (await sync_to_async(row)(workload)).gpu_memory == 8 * GIB
    assert await sync_to_async(charged)(workload) == (8 * GIB, 300)


async def test_growing_does_not_overtake_those_that_wait_and_shrinking_always_may(people: World) -> None:
    await sync_to_async(quota)(people.lab, gpu_memory=20 * GIB, gpu_compute=1000)
    async with controlled(FakeCluster()):
        workload = await running(people)
        await ask(people, actor=people.colleague, resources=Resources(GpuShare(1, 15 * GIB, 100, 100), 1000, 2 * GIB))
        with pytest.raises(Conflict) as refusal:
            await resize(people, workload, Change(memory=10 * GIB))
        assert refusal.value.code == "resize_turn"
        assert (await preview(people, workload, Change(memory=7 * GIB))).allowed


async def test_a_quota_lowered_below_its_use_does_not_keep_anybody_from_becoming_smaller(people: World) -> None:
    async with controlled(FakeCluster()):
        workload = await running(people)
        await sync_to_async(quota)(people.lab, gpu_memory=GIB, gpu_compute=1000)
        await resize(people, workload, Change(memory=4 * GIB))
        await until(settled(workload, 4 * GIB))


async def test_no_room_on_its_card_is_refused_before_the_click(people: World) -> None:
    async with controlled(FakeCluster()) as controller:
        workload = await running(people)
        await controller.look_around()
        await until(lambda: mirrored(workload))
        await sync_to_async(quota)(people.lab, gpu_memory=500 * GIB, gpu_compute=5000)
        verdict = await preview(people, workload, Change(memory=60 * GIB))
    assert (verdict.allowed, verdict.reason) == (False, "resize_card")
    assert verdict.evidence["room_bytes"] == 47 * GIB
    assert verdict.nearest is not None
    assert verdict.nearest.memory == 47 * GIB


async def test_the_cluster_has_the_last_word_and_its_refusal_is_told(people: World) -> None:
    """The mirror saw room that somebody else has taken meanwhile."""
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        await until(lambda: mirrored(workload))
        cluster.cards = tuple(card for card in cluster.cards if card.uuid not in workload.cards) + tuple(
            _with_memory(card, 9 * GIB) for card in cluster.cards if card.uuid in workload.cards
        )
        await resize(people, workload, LARGER)
        await until(lambda: notices.open_of([workload.id]).exists())
        await until(settled(workload, 8 * GIB))
        (notice,) = await sync_to_async(lambda: list(notices.open_of([workload.id])))()
        assert (notice.code, notice.evidence["room_bytes"]) == ("resize_refused", 9 * GIB)
        await resize(people, workload, SMALLER)
        await until(settled(workload, 2 * GIB))
        assert not await sync_to_async(notices.open_of([workload.id]).exists)(), "a new wish ends the old refusal"


def _with_memory(card: Any, memory: int) -> Any:
    from dataclasses import replace

    return replace(card, memory=memory)


async def test_of_two_wishes_the_later_one_counts(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        cluster.silent = True
        await resize(people, workload, LARGER)
        await resize(people, workload, SMALLER)
        assert await sync_to_async(charged)(workload) == (16 * GIB, 500), "either may be in force by now"
        cluster.silent = False
        await until(settled(workload, 2 * GIB))
        assert cluster.runs[workload.uid].spec.resources.gpu == GpuShare(1, 2 * GIB, 100, 600)


async def test_a_controller_that_comes_later_finishes_it(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
    await resize(people, workload, LARGER)
    async with controlled(cluster):
        await until(settled(workload, 16 * GIB))


async def test_a_run_that_ends_meanwhile_leaves_the_new_share_to_the_next_one(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        cluster.before = _unavailable_for("resize")
        await resize(people, workload, LARGER)
        await stop(actor=people.member, workload=workload)
        stopped = await until(in_phase(workload, Phase.STOPPED))
        assert (stopped.resize_from, stopped.gpu_memory) == (None, 16 * GIB)
        cluster.before = lambda method, uid: None
        await start(actor=people.member, workload=stopped)
        await until(in_phase(workload, Phase.READY))
        assert await sync_to_async(charged)(workload) == (16 * GIB, 500)


async def test_a_run_that_broke_meanwhile_is_no_refusal(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await running(people)
        cluster.silent = True
        await resize(people, workload, LARGER)
        cluster.silent = False
        cluster.go(workload.uid, RunState.EXITED, exit_code=1)
        failed = await until(in_phase(workload, Phase.FAILED))
        assert (failed.reason, failed.resize_from, failed.gpu_memory) == ("crashed", None, 16 * GIB)
        assert not await sync_to_async(notices.open_of([workload.id]).exists)()


def _unavailable_for(wanted: str) -> Any:
    def before(method: str, uid: str) -> None:
        if method == wanted:
            raise Unavailable(f"no answer about {uid}")

    return before


async def test_what_has_stopped_gets_its_new_share_with_the_next_start(people: World) -> None:
    async with controlled(FakeCluster()):
        workload = await running(people)
        await stop(actor=people.member, workload=workload)
        stopped = await until(in_phase(workload, Phase.STOPPED))
        assert (await preview(people, stopped, LARGER)).reason == "resize_next_run"
        changed = await resize(people, stopped, LARGER)
    assert (changed.gpu_memory, changed.resize_from) == (16 * GIB, None)
    assert not await sync_to_async(ledger.held().exists)()


@pytest.mark.parametrize(
    ("change", "reason"), [(Change(compute=1000), "resize_whole"), (Change(memory=8 * GIB, compute=300), "")]
)
async def test_a_part_of_a_gpu_does_not_become_a_whole_one_and_no_change_is_none(
    people: World, change: Change, reason: str
) -> None:
    async with controlled(FakeCluster()):
        workload = await running(people)
        generation = workload.generation
        if reason:
            with pytest.raises(Conflict) as refusal:
                await resize(people, workload, change)
            assert refusal.value.code == reason
        else:
            assert (await resize(people, workload, change)).generation == generation


async def test_what_the_cluster_keeps_for_it_for_good_stays_charged(people: World) -> None:
    """On Kubernetes the claim's allocation is the scheduler's: less may be used of it, and nobody else gets the rest."""
    cluster = FakeCluster()
    cluster.resizing = Resizing.WITHIN

    async def keeps(uid: str, run: int, share: GpuShare) -> GpuShare:
        return GpuShare(1, 8 * GIB, 300, share.ceiling)

    cluster.resize = keeps  # type: ignore[method-assign]
    async with controlled(cluster):
        workload = await running(people)
        await until(lambda: mirrored(workload))
        await resize(people, workload, Change(memory=2 * GIB, ceiling=900))
        await until(lambda: row(workload).resize_from is None)
        assert await sync_to_async(charged)(workload) == (8 * GIB, 300)
        with pytest.raises(Conflict) as refusal:
            await resize(people, workload, Change(memory=9 * GIB))
        assert (refusal.value.code, refusal.value.evidence["room_bytes"]) == ("resize_claim", 8 * GIB)
        with pytest.raises(Conflict):
            await resize(people, workload, Change(compute=200))
        assert (await preview(people, workload, Change(memory=8 * GIB))).allowed


@pytest.mark.parametrize(
    ("who", "error"),
    [("colleague", NotPermitted), ("viewer", NotPermitted), ("stranger", NotFound), ("outsider", NotFound)],
)
async def test_only_its_people_change_it(people: World, who: str, error: type[Exception]) -> None:
    async with controlled(FakeCluster()):
        workload = await running(people)
        with pytest.raises(error):
            await resize(people, workload, SMALLER, who)
        await resize(people, workload, SMALLER, "manager")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (Change(memory=1), "memory_bytes"),
        (Change(compute=0), "compute_permille"),
        (Change(compute=400, ceiling=300), "ceiling_permille"),
    ],
)
async def test_what_is_no_share_is_refused_by_field(people: World, change: Change, field: str) -> None:
    asked = await ask(people)
    with pytest.raises(InvalidInput) as refusal:
        await resize(people, asked, change)
    assert list(refusal.value.fields) == [field]


async def test_while_it_waits_or_begins_its_share_stays(people: World) -> None:
    cluster = FakeCluster(auto=False)
    async with controlled(cluster):
        asked = await ask(people)
        await until(lambda: asked.uid in cluster.runs)
        with pytest.raises(Conflict) as refusal:
            await resize(people, asked, SMALLER)
        assert refusal.value.code == "resize_not_running"
