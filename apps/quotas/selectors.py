"""Reads quotas: what may be held, what is held, by whom."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from apps.quotas import ledger
from apps.quotas.admission import AMOUNTS, Node
from apps.quotas.models import Claim, Quota
from apps.tenants.models import Tenant
from apps.tenants.tree import Nodes


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension of `core.units.DIMENSIONS` at one node: what is used there of which limit (None: none)."""

    dimension: str
    used: int
    limit: int | None
    of_tenant: str  # name of the node whose limit this is
    tenant_id: UUID

    @property
    def free(self) -> int | None:
        return None if self.limit is None else max(self.limit - self.used, 0)

    @property
    def permille(self) -> int | None:
        """How full, for a bar; above 1000 where the limit was lowered below use."""
        if self.limit is None:
            return None
        return self.used * 1000 // self.limit if self.limit else (1000 if self.used else 0)


def headroom(tenant: Tenant, user_id: UUID | None) -> list[Line]:
    """For each dimension the line that leaves least room on the way up: what the person sees as "my quota"."""
    nodes = ledger.nodes(ledger.path_of(tenant.id), user_id, ledger.Waiting())
    tightest: dict[str, Line] = {}
    for node in nodes:
        for line in _node_lines(node):
            known = tightest.get(line.dimension)
            if known is None or _room(line) < _room(known):
                tightest[line.dimension] = line
    return list(tightest.values())


def _room(line: Line) -> float:
    return float("inf") if line.free is None else line.free


def _node_lines(node: Node) -> list[Line]:
    where = UUID(node.id)
    found = [
        Line(name, getattr(node.used, name), getattr(node.limits, name), node.name, where)
        for name in (*AMOUNTS, "running")
    ]
    return [*found, Line("running_per_user", node.used_by_user, node.limits.running_per_user, node.name, where)]


def lines(tenant: Tenant, quota: Quota | None = None) -> list[Line]:
    """Every dimension of this very node against `quota` (None: the stored one), as the quota editor shows it."""
    limits = ledger.limits_of(tenant, quota or quota_of(tenant))
    used = ledger.nodes(ledger.path_of(tenant.id), None, ledger.Waiting())[0].used
    names = (*AMOUNTS, "running")
    return [Line(name, getattr(used, name), getattr(limits, name), tenant.name, tenant.id) for name in names]


def quota_of(tenant: Tenant) -> Quota | None:
    return Quota.objects.filter(tenant=tenant).first()


def holders(tenant: Tenant) -> QuerySet[Claim]:
    """Held claims of the tenant and all below it, the largest share of GPU memory first."""
    below = Nodes.one(tenant.id).with_below()
    return (
        ledger.held().filter(tenant__in=below.ids).select_related("tenant", "owner").order_by("-gpu_memory", "held_at")
    )
