"""The whole controller against a cluster in memory, over real bells and the real database."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.cluster.specs import RunState, Sample
from apps.core import bells
from apps.core.errors import InvalidInput, Unavailable
from apps.core.share import GIB, GpuShare
from apps.experiments import services as experiments
from apps.experiments.kind import build_spec
from apps.quotas import ledger
from apps.workloads import lease, reach, services
from apps.workloads.controller import Controller
from apps.workloads.models import Desired, Phase, Workload
from tests.conftest import Clock
from tests.factories import SLICE, World, quota
from tests.factories import world as make_world
from tests.fakes.cluster import H100, FakeCluster

pytestmark = pytest.mark.django_db(transaction=True)
BOUND = 20  # seconds that a wait may take before the test is given up; no statement about speed


@sync_to_async
def ask(world: World, **fields: Any) -> Workload:
    wanted = {
        "actor": world.member,
        "tenant": world.lab,
        "name": "测试",
        "environment": world.environment,
        "resources": SLICE,
    }
    return experiments.request_experiment(**{**wanted, **fields})


stop, start, extend = (sync_to_async(f) for f in (services.stop, services.start, services.extend))


async def until(condition: Callable[[], Any]) -> Any:
    """The first true value of `condition`, which reads rows and calls; asked again and again, within a bound."""
    async with asyncio.timeout(BOUND):
        while not (value := await sync_to_async(condition)()):  # noqa: ASYNC110 - rows have no event to wait for
            await asyncio.sleep(0.005)
        return value


def row(workload: Workload) -> Workload:
    return Workload.objects.get(id=workload.id)


def in_phase(workload: Workload, phase: Phase) -> Callable[[], Workload | None]:
    return lambda: Workload.objects.filter(id=workload.id, phase=phase).first()


def held(workload: Workload) -> bool:
    return ledger.held().filter(workload_id=workload.id).exists()


@asynccontextmanager
async def controlled(cluster: FakeCluster) -> AsyncIterator[Controller]:
    holder = lease.new_holder(Path("/test"))
    assert await sync_to_async(lease.take)(holder) is None
    controller = Controller(cluster, holder)
    running = asyncio.create_task(controller.run())
    try:
        async with asyncio.timeout(BOUND):
            await controller.working.wait()
        yield controller
    finally:
        running.cancel()
        await asyncio.wait((running,))


@pytest.fixture(autouse=True)
def no_gateway() -> Iterator[None]:
    """Visits succeed at once, unless a test puts a gateway in the way."""
    before = reach.register(None)
    yield
    reach.register(before)


@pytest.fixture
def people(db: None, bell_dir: Path) -> World:
    return make_world()


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


@pytest.mark.parametrize(
    ("reason", "exit_code", "phase", "told"),
    [
        ("", 0, Phase.STOPPED, "exited"),
        ("", 1, Phase.FAILED, "crashed"),
        ("killed", None, Phase.FAILED, "killed"),
        ("host_shutdown", None, Phase.STOPPED, "host_shutdown"),
        ("out_of_memory_host", None, Phase.FAILED, "out_of_memory_host"),
    ],
)
async def test_an_end_without_our_asking_is_told_with_its_reason(
    people: World, reason: str, exit_code: int | None, phase: Phase, told: str
) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        cluster.go(asked.uid, RunState.EXITED, reason, exit_code=exit_code)
        ended = await until(in_phase(asked, phase))
        assert (ended.reason, ended.desired) == (told, Desired.STOPPED)
        assert not await sync_to_async(held)(asked)
        await start(actor=people.member, workload=ended)
        again = await until(in_phase(asked, Phase.READY))
    assert again.run == 2


async def test_what_vanishes_behind_our_back_has_failed_and_gives_its_quota_back(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        cluster.lose(asked.uid)
        lost = await until(in_phase(asked, Phase.FAILED))
        assert lost.reason == "lost"
        assert not await sync_to_async(held)(asked)


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


async def test_the_time_limit_counts_from_ready_and_stops_it(people: World, stopped_clock: Clock) -> None:
    async with controlled(FakeCluster()):
        asked = await ask(people, time_limit_seconds=3600)
        ready = await until(in_phase(asked, Phase.READY))
        assert ready.expires_at == stopped_clock.now + timedelta(hours=1)
        stopped_clock.tick(minutes=59)
        await sync_to_async(bells.ring)("controller")
        await until(lambda: row(asked).next_due_at == ready.expires_at)  # the warning was handled
        assert (await sync_to_async(row)(asked)).phase == Phase.READY
        stopped_clock.tick(minutes=1)
        await sync_to_async(bells.ring)("controller")
        stopped = await until(in_phase(asked, Phase.STOPPED))
    assert (stopped.reason, stopped.evidence["limit_seconds"]) == ("time_limit", 3600)


async def test_an_extended_limit_stops_later(people: World, stopped_clock: Clock) -> None:
    async with controlled(FakeCluster()):
        asked = await ask(people, time_limit_seconds=3600)
        await until(in_phase(asked, Phase.READY))
        await extend(actor=people.member, workload=asked, seconds=1800)
        stopped_clock.tick(minutes=85)
        await sync_to_async(bells.ring)("controller")
        await until(lambda: row(asked).next_due_at == row(asked).expires_at)
        assert (await sync_to_async(row)(asked)).phase == Phase.READY
        stopped_clock.tick(minutes=5)
        await sync_to_async(bells.ring)("controller")
        await until(in_phase(asked, Phase.STOPPED))


@pytest.mark.parametrize("remove_home", [True, False])
async def test_a_deleted_experiment_is_gone_then_its_home_if_asked_then_its_row(
    people: World, remove_home: bool
) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        delete = sync_to_async(experiments.delete_experiment)
        await delete(actor=people.member, workload=asked, remove_home=remove_home)
        await until(lambda: Workload.objects.get(id=asked.id).deleted_at)
    order = [method for method, _uid in cluster.calls if method in ("delete", "remove_volume")]
    assert order[0] == "delete"
    assert order.count("remove_volume") == int(remove_home)
    assert not remove_home or order[-1] == "remove_volume"
    assert cluster.removed_volumes == ([f"home-{asked.id}"] if remove_home else [])
    assert not await sync_to_async(held)(asked)


async def test_stop_overtaking_the_start_ends_what_was_just_made(people: World) -> None:
    cluster = FakeCluster()
    stopped: list[Workload] = []

    def interfere(method: str, uid: str) -> None:
        if method == "apply" and not stopped:
            stopped.append(asked)
            threading.Thread(target=services.stop, kwargs={"actor": people.member, "workload": asked}).start()

    cluster.before = interfere
    async with controlled(cluster):
        asked = await ask(people)
        await until(in_phase(asked, Phase.STOPPED))
        assert not await sync_to_async(held)(asked)
    assert cluster.runs[asked.uid].seen.state is RunState.EXITED


async def test_after_a_restart_everything_that_runs_is_taken_over(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        kept, ended = await ask(people), await ask(people)
        await until(in_phase(kept, Phase.READY))
        await until(in_phase(ended, Phase.READY))
    cluster.go(ended.uid, RunState.EXITED, "host_shutdown")  # nobody is there to see it
    applied = cluster.calls.count(("apply", kept.uid))
    async with controlled(cluster):
        gone = await until(in_phase(ended, Phase.STOPPED))
        assert gone.reason == "host_shutdown"
        still = await sync_to_async(row)(kept)
    assert (still.phase, still.run) == (Phase.READY, 1)
    assert cluster.calls.count(("apply", kept.uid)) == applied


async def test_a_run_that_outlived_its_end_is_ended(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster) as controller:
        asked = await ask(people)
        await until(in_phase(asked, Phase.READY))
        cluster.go(asked.uid, RunState.EXITED, exit_code=0)
        await until(in_phase(asked, Phase.STOPPED))
        cluster.go(asked.uid, RunState.READY)  # it was there after all
        await controller.look_around()
        await until(lambda: cluster.runs[asked.uid].seen.state is RunState.EXITED)


async def test_runs_without_a_row_are_left_alone(people: World) -> None:
    cluster = FakeCluster()
    foreign = build_spec(await ask(people))
    await sync_to_async(Workload.objects.all().delete)()
    await sync_to_async(ledger.held().update)(settled_at=datetime.now(UTC))
    async with controlled(cluster) as controller:
        await cluster.apply(foreign)
        await until(lambda: cluster.runs[foreign.uid].seen.state is RunState.READY)
        await controller.look_around()
    assert ("delete", foreign.uid) not in cluster.calls


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


async def test_a_controller_that_lost_its_lease_writes_nothing_and_ends(people: World) -> None:
    cluster = FakeCluster()
    holder = lease.new_holder(Path("/test"))
    await sync_to_async(lease.take)(holder)
    controller = Controller(cluster, holder)
    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(BOUND):
        await controller.working.wait()
    await sync_to_async(lease.take)(lease.new_holder(Path("/test")))
    asked = await ask(people)
    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.timeout(BOUND):
            await running
    assert ended.value.subgroup(lease.LeaseLost) is not None
    assert (await sync_to_async(row)(asked)).phase == Phase.ADMITTED
