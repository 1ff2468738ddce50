"""The verdict before the click: would this start now, wait, or never work, and what would fit instead. Changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from apps.audit.context import Actor
from apps.catalog.models import Flavour
from apps.catalog.selectors import flavours
from apps.cluster import selectors as cluster
from apps.core.share import Resources
from apps.quotas import ledger
from apps.quotas.admission import Amounts, Decision, Kind, decide
from apps.quotas.selectors import Line, headroom
from apps.tenants import policies
from apps.tenants.models import Tenant
from apps.workloads.models import Phase, Workload
from apps.workloads.queue import waiting_for
from apps.workloads.site import site_refusal


class VerdictKind(StrEnum):
    STARTS = "starts"
    WAITS = "waits"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`nearest` is the request cut down to what would start now (where it waits) or could ever start (where refused), `nearest_flavour` the
    largest preset within it. `lines_after` is the person's quota with this request in it."""

    kind: VerdictKind
    reason: str
    evidence: dict[str, Any]
    nearest: Resources | None = None
    nearest_flavour: Flavour | None = None
    lines_after: list[Line] = field(default_factory=list)


def preview(*, actor: Actor, tenant: Tenant, resources: Resources) -> Verdict:
    policies.may_run(actor, tenant)
    assert actor.user_id is not None
    asking = Workload(owner_id=actor.user_id, tenant=tenant, phase=Phase.DRAFT)
    nodes = ledger.nodes(ledger.path_of(tenant.id), actor.user_id, waiting_for(asking))
    decision = decide(resources, nodes)
    if decision.kind is not Kind.REFUSE:
        decision = _with_cards(resources, decision)
    kinds = {Kind.ADMIT: VerdictKind.STARTS, Kind.WAIT: VerdictKind.WAITS, Kind.REFUSE: VerdictKind.REFUSED}
    nearest = None if decision.kind is Kind.ADMIT else decision.nearest
    return Verdict(
        kind=kinds[decision.kind],
        reason=decision.reason,
        evidence=decision.evidence,
        nearest=nearest,
        nearest_flavour=_largest_within(nearest, flavours(tenant)),
        lines_after=[_after(line, Amounts.of(resources)) for line in headroom(tenant, actor.user_id)],
    )


def _after(line: Line, asked: Amounts) -> Line:
    more = 1 if line.dimension == "running_per_user" else getattr(asked, line.dimension)
    return Line(line.dimension, line.used + more, line.limit, line.of_tenant, line.tenant_id)


def _with_cards(resources: Resources, decision: Decision) -> Decision:
    """The quota's decision, seen with the machines: what none could ever hold is refused, what none holds now waits."""
    never = site_refusal(resources)
    if never is not None:
        return never
    if decision.kind is not Kind.ADMIT:
        return decision
    site = cluster.site()
    if site is None:
        return Decision(Kind.WAIT, "cluster_unknown", {"since": "—"})
    free = max(site.ram - ledger.held_ram(), 0)
    if resources.ram > free:
        return Decision(Kind.WAIT, "waiting_machine", {"ram_bytes": resources.ram, "room_bytes": free})
    if resources.gpu is None:
        return decision
    room = cluster.room(resources.gpu)
    if room.fits_now:
        return decision
    nearest = replace(resources, gpu=room.largest) if room.largest else None
    return Decision(Kind.WAIT, "waiting_card", room.evidence, nearest)


def _largest_within(room: Resources | None, choices: Iterable[Flavour]) -> Flavour | None:
    """The largest preset that asks for no more than `room` in anything."""
    if room is None:
        return None
    fitting = [flavour for flavour in choices if _within(flavour.resources, room)]
    return max(
        fitting,
        key=lambda f: (f.gpu_count * f.gpu_memory, f.gpu_count * f.gpu_compute, f.cpu_milli, f.ram),
        default=None,
    )


def _within(asked: Resources, room: Resources) -> bool:
    if asked.cpu_milli > room.cpu_milli or asked.ram > room.ram:
        return False
    if asked.gpu is None:
        return room.gpu is None
    gpu = room.gpu
    return (
        gpu is not None
        and asked.gpu.count <= gpu.count
        and asked.gpu.memory <= gpu.memory
        and asked.gpu.compute <= gpu.compute
    )
