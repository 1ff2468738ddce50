"""The queue for quota: who waits, and who holds whom back. The order is by `queued_at`, oldest first."""

from collections import Counter
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from apps.quotas import ledger
from apps.quotas import services as quotas
from apps.quotas.admission import Decision, Kind
from apps.quotas.ledger import Waiting
from apps.tenants.tree import Tree
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.moves import move
from apps.workloads.states import Event

OWN_LIMIT = "running_per_user"  # who waits for this holds back only the same person


def queued() -> QuerySet[Workload]:
    return Workload.objects.filter(phase=Phase.QUEUED, desired=Desired.RUNNING).order_by("queued_at", "id")


def ahead_of(workload: Workload) -> QuerySet[Workload]:
    """All that wait longer; everybody where `workload` does not wait itself yet."""
    others = queued().exclude(id=workload.id)
    if workload.phase != Phase.QUEUED:
        return others
    return others.filter(Q(queued_at__lt=workload.queued_at) | Q(queued_at=workload.queued_at, id__lt=workload.id))


def waiting_for(workload: Workload) -> Waiting:
    """What the quota must know of the queue to decide about `workload`."""
    has_place = workload.phase == Phase.QUEUED
    if not has_place and not queued().order_by().exists():  # as a rule, and quicker told than all the rest
        return Waiting()
    kinds_of_waiting = (
        ahead_of(workload).order_by().values_list("tenant_id", "owner_id", "evidence__node", "evidence__dimension")
    )
    counts: Counter[UUID] = Counter()
    nodes: set[str] = set()
    users: set[tuple[str, str]] = set()
    for tenant_id, owner_id, node, dimension, how_many in kinds_of_waiting.annotate(how_many=Count("id")):
        counts[tenant_id] += how_many
        if dimension == OWN_LIMIT:
            users.add((node, str(owner_id)))
        else:
            nodes.add(node)
    return Waiting(counts, frozenset(nodes), frozenset(users), has_place)


def decide(workload: Workload, path: ledger.Path) -> Decision:
    """Ask the quota; where it admits, the claim is written. The caller holds the locks of `path` and moves the workload."""
    return quotas.claim(
        path=path,
        owner_id=workload.owner_id,
        resources=workload.resources,
        workload_id=workload.id,
        run=workload.run,
        waiting=waiting_for(workload),
    )


@transaction.atomic
def try_to_admit(workload_id: UUID, tenant_id: UUID) -> Decision | None:
    """Decide once more about one that waits, and move it. None where it waits no longer."""
    path = ledger.lock_path(tenant_id)
    workload = queued().select_for_update(no_key=True).filter(id=workload_id).first()
    if workload is None:
        return None
    decision = decide(workload, path)
    if decision.kind is Kind.ADMIT:
        move(workload, Event.ADMIT, reason=decision.reason, evidence=decision.evidence, by_controller=True)
    elif decision.kind is Kind.WAIT:
        move(workload, Event.QUEUE, reason=decision.reason, evidence=decision.evidence, by_controller=True)
    else:
        workload.desired = Desired.STOPPED
        workload.save(update_fields=["desired"])
        move(workload, Event.REFUSE, reason=decision.reason, evidence=decision.evidence, by_controller=True)
    return decision


def admit_all() -> list[UUID]:
    """One pass over the queue, each decision in its own transaction. Returns the admitted.

    Whoever stands behind one that still waits is not asked again: a pass costs as many transactions as there are
    admissions and blocked heads, however long the queue is.
    """
    rows = list(queued().values_list("id", "tenant_id", "owner_id"))
    tree = Tree.load() if rows else Tree({})
    admitted: list[UUID] = []
    held: set[tuple[str, UUID | None]] = set()  # (node, None) for everybody there, (node, owner) for one person
    for workload_id, tenant_id, owner_id in rows:
        if any((str(node), who) in held for node in tree.path(tenant_id) for who in (None, owner_id)):
            continue
        decision = try_to_admit(workload_id, tenant_id)
        if decision is not None and decision.kind is Kind.ADMIT:
            admitted.append(workload_id)
        elif decision is not None and decision.kind is Kind.WAIT:
            own = decision.evidence.get("dimension") == OWN_LIMIT
            held.add((str(decision.evidence["node"]), owner_id if own else None))
    return admitted
