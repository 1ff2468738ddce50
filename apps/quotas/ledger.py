"""Reads limits and held claims along the tenant tree. Inside a transaction that holds `lock_path` the numbers stay true."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet, Sum

from apps.quotas.admission import AMOUNTS, NOTHING, Amounts, Limits, Node
from apps.quotas.models import Claim, Quota
from apps.tenants.models import Tenant, TenantKind
from apps.tenants.tree import Tree

LIMITS = (*AMOUNTS, "running", "running_per_user", "pending")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits, as the layer above knows it: how many per tenant, and which nodes hold back later requests."""

    per_tenant: Mapping[UUID, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()  # ids of nodes that somebody waits for
    users: frozenset[tuple[str, str]] = frozenset()  # (node, user) where somebody waits for the own limit
    has_place: bool = False  # the one who asks waits already


def lock_path(tenant_id: UUID) -> list[Tenant]:
    """Lock the tenant and all above it until the transaction ends; returned from the tenant up. The rows are locked from the root down.

    Everything that admits or changes limits takes these locks first and no other lock before them, so nobody waits in a circle.
    NO KEY leaves the foreign keys of other rows usable meanwhile. SQLite has one writer at a time anyway.
    """
    path = Tree.load().path(tenant_id)
    rows = {t.id: t for node in reversed(path) for t in Tenant.objects.select_for_update(no_key=True).filter(id=node)}
    return [rows[node] for node in path]


def held() -> QuerySet[Claim]:
    return Claim.objects.filter(settled_at=None).order_by()


def held_ram() -> int:
    """Bytes of RAM promised to everything that is admitted, over all tenants."""
    return int(held().aggregate(ram=Sum("ram", default=0))["ram"])


def _sum(claims: QuerySet[Claim]) -> Amounts:
    totals: dict[str, Any] = claims.aggregate(running=Count("id"), **{name: Sum(name, default=0) for name in AMOUNTS})
    return Amounts(**totals)


def limits_of(tenant: Tenant, quota: Quota | None) -> Limits:
    if quota is None:
        return Limits() if tenant.kind == TenantKind.DEPARTMENT else NOTHING
    return Limits(**{name: getattr(quota, name) for name in LIMITS})


def nodes(path: Sequence[Tenant], owner_id: UUID, waiting: Waiting) -> list[Node]:
    """What `admission.decide` needs, for `path` from the tenant up to its root."""
    tree = Tree.load()
    quotas = {quota.tenant_id: quota for quota in Quota.objects.filter(tenant__in=[t.id for t in path])}
    return [_node(tenant, quotas.get(tenant.id), tree.subtree([tenant.id]), owner_id, waiting) for tenant in path]


def _node(tenant: Tenant, quota: Quota | None, below: Iterable[UUID], owner_id: UUID, waiting: Waiting) -> Node:
    claims = held().filter(tenant__in=below)
    key = str(tenant.id)
    return Node(
        id=key,
        name=tenant.name,
        limits=limits_of(tenant, quota),
        used=_sum(claims),
        used_by_user=claims.filter(owner=owner_id).count(),
        waiting=sum(waiting.per_tenant.get(node, 0) for node in below),
        held_back=key in waiting.nodes,
        user_held_back=(key, str(owner_id)) in waiting.users,
        has_quota=quota is not None or tenant.kind == TenantKind.DEPARTMENT,
    )
