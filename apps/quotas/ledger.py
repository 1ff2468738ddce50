"""Reads limits and held claims along the tenant tree. Inside a transaction that holds `lock_path` the numbers stay true."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet, Sum

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


@dataclass(frozen=True, slots=True)
class Path:
    """A tenant and all above it, from the tenant up to the root, and the tree that they stand in."""

    tenants: tuple[Tenant, ...]
    tree: Tree

    @property
    def tenant(self) -> Tenant:
        return self.tenants[0]

    @property
    def topics(self) -> list[str]:
        """The bells of all of them."""
        return [f"tenant:{tenant.id}" for tenant in self.tenants]


def path_of(tenant_id: UUID, rows: QuerySet[Tenant] | None = None) -> Path:
    tree = Tree.load()
    ids = tree.path(tenant_id)
    found = {t.id: t for t in (Tenant.objects.all() if rows is None else rows).filter(id__in=ids).order_by("id")}
    return Path(tuple(found[node] for node in ids), tree)


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
    everything = path.tree.subtree([path.tenants[-1].id])
    held_by = _held_by(everything)
    return [_node(tenant, quotas.get(tenant.id), path.tree, held_by, owner_id, waiting) for tenant in path.tenants]


def _held_by(tenant_ids: Iterable[UUID]) -> dict[tuple[UUID, UUID], Amounts]:
    """What each owner holds in each tenant. In SQL, since others wait for the locks meanwhile: to build the same of expressions takes
    four times as long as everything else here."""
    ids = [_ID.get_db_prep_value(one, connection) for one in tenant_ids]
    marks = ", ".join(["%s"] * len(ids))
    with connection.cursor() as cursor:
        cursor.execute(f"{_SUMS} WHERE settled_at IS NULL AND tenant_id IN ({marks}) GROUP BY tenant_id, owner_id", ids)
        rows = cursor.fetchall()
    return {(_ID.to_python(row[0]), _ID.to_python(row[1])): _amounts(row[2:]) for row in rows}


def _amounts(sums: Sequence[Any]) -> Amounts:
    """Sums of whole numbers, which PostgreSQL gives as decimals."""
    running, *amounts = (int(one) for one in sums)
    return Amounts(**dict(zip(AMOUNTS, amounts, strict=True)), running=running)


_ID: Final = Claim._meta.get_field("id")
_SUMS: Final = (
    f"SELECT tenant_id, owner_id, COUNT(*), {', '.join(f'SUM({name})' for name in AMOUNTS)} FROM {Claim._meta.db_table}"  # noqa: S608 - names of columns
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
