"""How things end under the controller: by wish, by time, by themselves, and over its own restarts."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from apps.cluster.specs import RunState
from apps.core import bells
from apps.experiments import services as experiments
from apps.experiments.kind import build_spec
from apps.quotas import ledger
from apps.workloads import lease, services
from apps.workloads.controller import Controller
from apps.workloads.models import Desired, Phase, Workload
from tests.conftest import Clock
from tests.factories import World
from tests.fakes.cluster import FakeCluster
from tests.unit.workloads.controlled import BOUND, ask, controlled, extend, held, in_phase, row, start, until

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize("steps", range(4))
async def test_it_ends_also_when_something_happens_at_that_very_moment(people: World, steps: int) -> None:
    """`steps` of the event loop lie between the two: in one of them a wait is over and not yet gone on from."""
    async with controlled(FakeCluster()) as controller:
        await until(in_phase(await ask(people, time_limit_seconds=3600), Phase.READY))
        await asyncio.sleep(0.05)  # it waits for something to do, and for the end of that time
        for event in (controller._timer, controller._cards, controller._admission, controller._everything):
            event.set()
        for _ in range(steps):
            await asyncio.sleep(0)
