"""Reads limits and held claims along the tenant tree. Inside a transaction that holds `lock_path` the numbers stay true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet, Sum

from apps.quotas.admission import AMOUNTS, NOTHING, Amounts, Limits, Node
from apps.quotas.models import Claim, Quota
from apps.tenants.models import Tenant, TenantKind
from apps.tenants.tree import Nodes, Tree

LIMITS = (*AMOUNTS, "running", "running_per_user", "pending")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits, as the layer above knows it: how many per tenant, and which nodes hold back later requests."""

    per_tenant: Mapping[UUID, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()  # ids of nodes that somebody waits for
    users: frozenset[tuple[str, str]] = frozenset()  # (node, user) where somebody waits for the own limit
    has_place: bool = False  # the one who asks waits already


@dataclass(frozen=True, slots=True)
class Path:
    """A tenant and all above it, from the tenant up to the root."""

    tenants: tuple[Tenant, ...]

    @property
    def tenant(self) -> Tenant:
        return self.tenants[0]

    @property
    def topics(self) -> list[str]:
        """The bells of all of them."""
        return [f"tenant:{tenant.id}" for tenant in self.tenants]


def path_of(tenant_id: UUID, rows: QuerySet[Tenant] | None = None) -> Path:
    on_path = Nodes.one(tenant_id).with_above()
    found = (Tenant.objects.all() if rows is None else rows).filter(id__in=on_path.ids).order_by("id")
    by_id = {tenant.id: tenant for tenant in found}
    tree = Tree({tenant.id: tenant.parent_id for tenant in by_id.values()})
    return Path(tuple(by_id[node] for node in tree.path(tenant_id)))


def lock_path(tenant_id: UUID) -> Path:
    """Lock the tenant and all above it until the transaction ends.

    Everything that admits or changes limits takes these locks first, in the order of their ids, and no lock before them, so nobody
    waits in a circle. NO KEY leaves the foreign keys of other rows usable meanwhile. SQLite has one writer at a time anyway.
    """
    return path_of(tenant_id, Tenant.objects.select_for_update(no_key=True))


def held() -> QuerySet[Claim]:
    return Claim.objects.filter(settled_at=None).order_by()


def held_ram() -> int:
    """Bytes of RAM promised to everything that is admitted, over all tenants."""
    return int(held().aggregate(ram=Sum("ram", default=0))["ram"])


def limits_of(tenant: Tenant, quota: Quota | None) -> Limits:
    if quota is None:
        return Limits() if tenant.kind == TenantKind.DEPARTMENT else NOTHING
    return Limits(**{name: getattr(quota, name) for name in LIMITS})


def nodes(path: Path, owner_id: UUID | None, waiting: Waiting) -> list[Node]:
    """What `admission.decide` needs about everything on the path; `owner_id` None is nobody."""
    quotas = Quota.objects.in_bulk([tenant.id for tenant in path.tenants])
    tree, held_by = _held_below(path.tenants[-1].id)
    return [_node(tenant, quotas.get(tenant.id), tree, held_by, owner_id, waiting) for tenant in path.tenants]


def _held_below(root_id: UUID) -> tuple[Tree, dict[tuple[UUID, UUID], Amounts]]:
    """The node with all below it, and what each owner holds in each of them. In SQL, since others wait for the locks meanwhile: to build
    the same of expressions takes four times as long as everything else here."""
    below = Nodes.one(root_id).with_below()
    with connection.cursor() as cursor:
        cursor.execute(_SUMS.format(below=below.sql), below.params)
        rows = cursor.fetchall()
    parents: dict[UUID, UUID | None] = {}
    held_by: dict[tuple[UUID, UUID], Amounts] = {}
    for tenant, parent, owner, *sums in rows:
        tenant_id = _ID.to_python(tenant)
        parents[tenant_id] = _ID.to_python(parent)
        if owner is not None:
            held_by[tenant_id, _ID.to_python(owner)] = _amounts(sums)
    return Tree(parents), held_by


def _amounts(sums: Sequence[Any]) -> Amounts:
    """Sums of whole numbers, which PostgreSQL gives as decimals."""
    running, *amounts = (int(one) for one in sums)
    return Amounts(**dict(zip(AMOUNTS, amounts, strict=True)), running=running)


_ID: Final = Claim._meta.get_field("id")
_SUMS: Final = (
    f"SELECT t.id, t.parent_id, c.owner_id, COUNT(c.id), {', '.join(f'SUM(c.{name})' for name in AMOUNTS)}"  # noqa: S608 - names of columns
    f" FROM {Tenant._meta.db_table} t LEFT JOIN {Claim._meta.db_table} c ON c.tenant_id = t.id AND c.settled_at IS NULL"
    " WHERE t.id IN ({below}) GROUP BY t.id, t.parent_id, c.owner_id"
)


def _node(
    tenant: Tenant,
    quota: Quota | None,
    tree: Tree,
    held_by: Mapping[tuple[UUID, UUID], Amounts],
    owner_id: UUID | None,
    waiting: Waiting,
) -> Node:
    below = tree.subtree([tenant.id])
    here = {who: amounts for who, amounts in held_by.items() if who[0] in below}
    key = str(tenant.id)
    return Node(
        id=key,
        name=tenant.name,
        limits=limits_of(tenant, quota),
        used=sum(here.values(), Amounts()),
        used_by_user=sum(amounts.running for (_tenant, owner), amounts in here.items() if owner == owner_id),
        waiting=sum(waiting.per_tenant.get(node, 0) for node in below),
        held_back=key in waiting.nodes,
        user_held_back=(key, str(owner_id)) in waiting.users,
        has_quota=quota is not None or tenant.kind == TenantKind.DEPARTMENT,
    )
