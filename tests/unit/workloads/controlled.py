"""A controller that runs in the test's loop against a cluster in memory, over real bells and the real database."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from apps.experiments import services as experiments
from apps.quotas import ledger
from apps.workloads import lease, services
from apps.workloads.controller import Controller
from apps.workloads.models import Phase, Workload
from tests.factories import SLICE, World
from tests.fakes.cluster import FakeCluster

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
        _, hanging = await asyncio.wait((running,), timeout=BOUND)
        assert not hanging, "it goes on though it was cancelled"
        await sync_to_async(connections.close_all)()
