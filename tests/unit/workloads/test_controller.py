"""The whole controller against a cluster in memory, over real bells and the real database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.cluster.specs import RunState
from apps.core.errors import Unavailable
from apps.experiments import services as experiments
from apps.quotas import ledger
from apps.workloads import lease, reach, services
from apps.workloads.controller import Controller
from apps.workloads.models import Desired, Phase, Workload
from tests.conftest import Clock
from tests.factories import SLICE, World, quota, world as make_world
from tests.fakes.cluster import FakeCluster

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
    """The first true value of `condition`, asked in a thread after every turn of the loop."""
    async with asyncio.timeout(BOUND):
        while not (value := await sync_to_async(condition)()):
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
def no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits succeed at once, unless a test puts a gateway in the way."""
    monkeypatch.setattr(reach, "_check", None)


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
