"""How the controller brings things up, and what it says while they wait."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async

from apps.cluster.specs import RunState, Sample
from apps.core import bells
from apps.core.errors import InvalidInput, Unavailable
from apps.core.share import GIB, GpuShare
from apps.workloads import reach
from apps.workloads.models import Desired, Phase, Workload
from tests.factories import SLICE, World, quota
from tests.fakes.cluster import H100, FakeCluster
from tests.unit.workloads.controlled import ask, controlled, held, in_phase, row, stop, until

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_request_becomes_ready_and_its_steps_are_told_in_order(people: World) -> None:
    async with controlled(FakeCluster()):
        asked = await ask(people)
        ready = await until(in_phase(asked, Phase.READY))
        assert ready.cards == ["GPU-l40s"]
        steps = await sync_to_async(lambda: [(s.phase, s.ended_at is not None) for s in asked.steps.all()])()
    phases = [phase for phase, _ended in steps]
    assert phases == sorted(phases, key=[*Phase].index)
    assert phases[-1] == Phase.READY
    assert [ended for _phase, ended in steps] == [True] * (len(steps) - 1) + [False]


async def test_its_quota_is_free_only_once_it_was_seen_gone(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        cluster.auto = False
        await stop(actor=people.member, workload=asked)
        await until(lambda: ("delete", asked.uid) in cluster.calls)
        assert await sync_to_async(held)(asked)
        cluster.go(asked.uid, RunState.EXITED)
        stopped = await until(in_phase(asked, Phase.STOPPED))
        assert not await sync_to_async(held)(asked)
    assert stopped.reason == "stopped_by_user"


async def test_who_waits_for_quota_starts_when_somebody_was_seen_gone(people: World) -> None:
    async with controlled(FakeCluster()):
        first, second, third = [await ask(people) for _ in range(3)]
        await until(in_phase(second, Phase.READY))
        assert (await sync_to_async(row)(third)).reason == "waiting_quota"
        await stop(actor=people.member, workload=first)
        await until(in_phase(third, Phase.READY))


async def test_who_waits_for_quota_starts_when_the_quota_grows(people: World) -> None:
    from apps.quotas.services import set_quota

    async with controlled(FakeCluster()):
        await sync_to_async(quota)(people.lab, running=0, gpu_memory=None, gpu_compute=None)
        await sync_to_async(quota)(people.lab, running=1)
        first, second = await ask(people), await ask(people)
        await until(in_phase(first, Phase.READY))
        await sync_to_async(set_quota)(actor=people.operator, tenant=people.lab, limits={"running": 2})
        await until(in_phase(second, Phase.READY))


async def test_waiting_for_a_card_says_for_what_and_ends_when_there_is_room(people: World) -> None:
    cluster = FakeCluster([H100])
    half = replace(SLICE, gpu=GpuShare(1, 8 * GIB, 600, 600))
    await sync_to_async(quota)(people.lab, gpu_compute=None)
    async with controlled(cluster):
        first = await ask(people, resources=half)
        await until(in_phase(first, Phase.READY))
        second = await ask(people, resources=half)
        waiting = await until(in_phase(second, Phase.SCHEDULING))
        assert waiting.reason == "waiting_card"
        assert waiting.evidence["room_permille"] == 400
        await stop(actor=people.member, workload=first)
        await until(in_phase(second, Phase.READY))


async def test_a_cluster_that_does_not_answer_changes_nothing(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster) as controller:
        asked = await ask(people)
        ready = await until(in_phase(asked, Phase.READY))
        asked_before = len(cluster.calls)
        cluster.silent = True
        cluster.tell(asked.uid)
        await until(lambda: len(cluster.calls) > asked_before)
        await stop(actor=people.member, workload=await ask(people))
        after = await sync_to_async(row)(asked)
        assert (after.phase, after.desired, after.observed_at) == (Phase.READY, Desired.RUNNING, ready.observed_at)
        assert await sync_to_async(held)(asked)
        cluster.silent = False
        controller.retry_now()
        await until(lambda: Workload.objects.filter(phase=Phase.STOPPED).exists())


async def test_an_unknown_state_is_neither_gone_nor_seen(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        ready = await until(in_phase(asked, Phase.READY))
        gets = cluster.calls.count(("get", asked.uid))
        cluster.go(asked.uid, RunState.UNKNOWN)
        await until(lambda: cluster.calls.count(("get", asked.uid)) > gets)
        cluster.go(asked.uid, RunState.READY)
        other = await ask(people)
        await until(in_phase(other, Phase.READY))
        after = await sync_to_async(row)(asked)
    assert after.phase == Phase.READY
    assert after.phase_since == ready.phase_since


async def test_a_start_that_waits_for_the_agent_says_so_and_goes_on_when_it_is_back(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster) as controller:
        cluster.silent = True
        asked = await ask(people)
        await until(lambda: row(asked).reason == "agent_unavailable")
        assert (await sync_to_async(row)(asked)).phase == Phase.ADMITTED
        cluster.silent = False
        controller.retry_now()
        await until(in_phase(asked, Phase.READY))


async def test_what_the_cluster_refuses_fails_with_its_words_and_holds_no_quota(people: World) -> None:
    cluster = FakeCluster()
    cluster.refuse = InvalidInput("no such environment here", code="environment_missing", evidence={"environment": "x"})
    async with controlled(cluster):
        asked = await ask(people)
        failed = await until(in_phase(asked, Phase.FAILED))
        assert failed.reason == "environment_missing"
        assert not await sync_to_async(held)(asked)


async def test_ready_means_visited_through_the_gateway(people: World) -> None:
    open_gate = asyncio.Event()
    visits: list[str] = []

    async def visit(slug: str) -> None:
        visits.append(slug)
        await open_gate.wait()

    reach.register(visit)
    async with controlled(FakeCluster()):
        asked = await ask(people)
        await until(lambda: row(asked).reason == "checking_gateway")
        await until(lambda: visits)
        assert (await sync_to_async(row)(asked)).phase == Phase.STARTING
        open_gate.set()
        await until(in_phase(asked, Phase.READY))
    assert visits == [asked.slug]


async def test_a_visit_that_is_soon_over_is_not_worth_a_word(people: World) -> None:
    visits: list[str] = []

    async def visit(slug: str) -> None:
        visits.append(slug)

    reach.register(visit)
    cluster = FakeCluster()
    cluster.auto = False
    async with controlled(cluster):
        asked = await ask(people)
        for state in (RunState.PREPARING, RunState.STARTING, RunState.READY):
            await until(lambda: asked.uid in cluster.runs)
            cluster.go(asked.uid, state)
            await until(lambda wanted=state: row(asked).phase == wanted)  # type: ignore[misc]
    told = await sync_to_async(lambda: list(asked.steps.values_list("reason", flat=True)))()
    assert told[-1] == "ready"
    assert "checking_gateway" not in told
    assert visits == [asked.slug]


async def test_a_closed_gateway_is_told_and_tried_again_when_it_rings(people: World) -> None:
    closed = True

    async def visit(slug: str) -> None:
        if closed:
            raise Unavailable("connection refused")

    reach.register(visit)
    async with controlled(FakeCluster()):
        asked = await ask(people)
        told = await until(lambda: Workload.objects.filter(id=asked.id, reason="gateway_unavailable").first())
        assert (told.phase, told.evidence["problem"]) == (Phase.STARTING, "connection refused")
        closed = False
        await sync_to_async(bells.ring)("gateway")
        await until(in_phase(asked, Phase.READY))
    assert await sync_to_async(asked.steps.filter(reason="gateway_unavailable").count)() == 1


async def test_samples_are_kept_and_the_inventory_is_mirrored(people: World) -> None:
    from apps.cluster.models import Gpu
    from apps.telemetry.models import Sample as Kept

    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        await until(lambda: Gpu.objects.filter(uuid="GPU-l40s", holders__0__uid=asked.uid).exists())
        cluster.sample_batches.put_nowait([Sample("card:GPU-l40s", datetime.now(UTC), compute_used=300)])
        await until(lambda: Kept.objects.filter(subject="card:GPU-l40s", compute_used=300).exists())
