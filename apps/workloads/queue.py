"""The queue for quota: who waits, and who holds whom back. The order is by `queued_at`, oldest first."""

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import Count, QuerySet

from apps.quotas import ledger
from apps.quotas import services as quotas
from apps.quotas.admission import Decision, Kind
from apps.quotas.ledger import Waiting
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.moves import move
from apps.workloads.states import Event


def queued() -> QuerySet[Workload]:
    return Workload.objects.filter(phase=Phase.QUEUED, desired=Desired.RUNNING).order_by("queued_at", "id")


def _counts(*, besides: UUID) -> dict[UUID, int]:
    rows = queued().exclude(id=besides).order_by().values_list("tenant_id").annotate(waiting=Count("id"))
    return dict(rows)


def _holding_back(ahead: Iterable[Workload]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    nodes: set[str] = set()
    users: set[tuple[str, str]] = set()
    for row in ahead:
        node = str(row.evidence.get("node", row.tenant_id))
        if row.evidence.get("dimension") == "running_per_user":
            users.add((node, str(row.owner_id)))
        else:
            nodes.add(node)
    return frozenset(nodes), frozenset(users)


def waiting_for(workload: Workload) -> Waiting:
    """What stands in the way of `workload`: the queue ahead of it, or all of it where it is not queued yet."""
    ahead = queued().exclude(id=workload.id)
    if workload.phase == Phase.QUEUED:
        ahead = ahead.filter(queued_at__lt=workload.queued_at)
    nodes, users = _holding_back(ahead.only("evidence", "tenant_id", "owner_id"))
    return Waiting(per_tenant=_counts(besides=workload.id), nodes=nodes, users=users)


def decide_and_move(workload: Workload, path: list[ledger.Tenant]) -> Decision:
    """Ask the quota for a queued workload; admit it or note what it waits for. The caller holds the locks of `path` and of the row."""
    decision = quotas.claim(
        path=path,
        owner_id=workload.owner_id,
        resources=workload.resources,
        workload_id=workload.id,
        run=workload.run,
        waiting=waiting_for(workload),
    )
    if decision.kind is Kind.ADMIT:
        move(workload, Event.ADMIT, reason="admitted", evidence=decision.evidence)
    return decision


@transaction.atomic
def admit(workload_id: UUID, tenant_id: UUID) -> bool:
    """Try one queued workload again. Returns whether it was admitted."""
    path = ledger.lock_path(tenant_id)
    workload = queued().select_for_update(no_key=True).filter(id=workload_id).first()
    if workload is None:
        return False
    decision = decide_and_move(workload, path)
    if decision.kind is Kind.ADMIT:
        return True
    if decision.kind is Kind.REFUSE and decision.reason != "queue_full":
        move(workload, Event.REFUSE, reason=decision.reason, evidence=decision.evidence)
    elif decision.kind is Kind.WAIT:
        move(workload, Event.QUEUE, reason=decision.reason, evidence=decision.evidence)
    return False


def admit_all() -> int:
    """One pass over the whole queue, oldest first, each in its own transaction. Returns how many were admitted."""
    return sum(
        admit(workload_id, tenant_id) for workload_id, tenant_id in list(queued().values_list("id", "tenant_id"))
    )
