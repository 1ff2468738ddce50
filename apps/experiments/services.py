"""Asks for experiments and deletes them; stop, start, extend and rename are the same for all kinds (`workloads.services`)."""

from collections.abc import Callable
from functools import partial

from django.db import transaction

from apps.audit.context import Actor
from apps.catalog.models import Environment
from apps.core.share import Resources
from apps.experiments.kind import NAME
from apps.experiments.models import Experiment
from apps.experiments.verdict import Verdict, preview
from apps.tenants.models import Tenant
from apps.workloads import services as workloads
from apps.workloads.models import Workload
from apps.workloads.services import Wish

__all__ = ["Verdict", "Wish", "delete_experiment", "prepare_experiment", "preview", "request_experiment"]


def request_experiment(
    *,
    actor: Actor,
    tenant: Tenant,
    name: str,
    environment: Environment,
    resources: Resources,
    time_limit_seconds: int | None = None,
    key: str | None = None,
) -> Workload:
    """Admitted, queued or refused in one transaction. The same `key` of the same person returns the same experiment."""
    return prepare_experiment(
        Wish(
            actor=actor,
            tenant=tenant,
            kind=NAME,
            name=name,
            environment=environment,
            resources=resources,
            time_limit_seconds=time_limit_seconds,
            key=key,
        )
    )()


def prepare_experiment(wish: Wish) -> Callable[[], Workload]:
    """`request_experiment` in two steps: what needs no lock is checked now, what is returned does the rest in one transaction."""
    return partial(_begin, workloads.prepare(wish))


@transaction.atomic
def _begin(request: Callable[[], tuple[Workload, bool]]) -> Workload:
    workload, is_new = request()
    if is_new:
        Experiment.objects.create(workload=workload, home=f"home-{workload.id}")
    return workload


@transaction.atomic
def delete_experiment(*, actor: Actor, workload: Workload, remove_home: bool) -> Workload:
    """The home folder is kept for operators to hand out, or removed for good once everything is gone."""
    row = workloads.delete(actor=actor, workload=workload)
    Experiment.objects.filter(workload=row).update(remove_home=remove_home)
    return row
