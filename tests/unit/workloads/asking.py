"""Shared by the tests of this folder: asking for something, and its end as the controller writes it."""

from typing import Any

from apps.experiments.services import request_experiment
from apps.quotas.services import settle
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.moves import move
from apps.workloads.states import Event
from tests.factories import SLICE, World


def ask(world: World, who: str = "member", **fields: Any) -> Workload:
    wanted = {
        "actor": getattr(world, who),
        "tenant": world.lab,
        "name": "测试",
        "environment": world.environment,
        "resources": SLICE,
    }
    return request_experiment(**{**wanted, **fields})


def ended(workload: Workload) -> Workload:
    """As the controller leaves it once it was seen gone."""
    row = Workload.objects.get(id=workload.id)
    if row.phase != Phase.STOPPING:
        row.desired = Desired.STOPPED
        row.save(update_fields=["desired"])
        move(row, Event.ENDED, reason="exited")
    else:
        move(row, Event.GONE, reason=row.reason)
    settle(workload_id=row.id, run=row.run)
    return row
