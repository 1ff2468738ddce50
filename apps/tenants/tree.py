"""The tenant tree: sets of its nodes as SQL, so that whoever asks may do so inside the query, and parts of it as plain ids.

A tenant's place never changes: nothing moves one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import UUIDField
from django.db.models.expressions import RawSQL

from apps.tenants.models import Membership, Tenant

_TENANTS: Final = Tenant._meta.db_table
_MEMBERSHIPS: Final = Membership._meta.db_table
_ID: Final = UUIDField()


@dataclass(frozen=True, slots=True)
class Nodes:
    """A set of nodes: a SELECT of one column, and its parameters. What is written here, by us alone, holds names and marks, never values."""

    sql: str
    params: tuple[Any, ...] = ()

    @classmethod
    def one(cls, tenant_id: UUID) -> "Nodes":
        return cls(f"SELECT id FROM {_TENANTS} WHERE id = %s", (_ID.get_db_prep_value(tenant_id, connection),))  # noqa: S608

    @classmethod
    def all(cls) -> "Nodes":
        return cls(f"SELECT id FROM {_TENANTS}")  # noqa: S608

    @classmethod
    def none(cls) -> "Nodes":
        return cls(f"SELECT id FROM {_TENANTS} WHERE 1 = 0")  # noqa: S608

    @classmethod
    def granted(cls, user_id: UUID, roles: Iterable[str]) -> "Nodes":
        """Those in which the person's own memberships give one of the roles, without those below them."""
        wanted = tuple(roles)
        marks = ", ".join(["%s"] * len(wanted))
        sql = f"SELECT tenant_id FROM {_MEMBERSHIPS} WHERE user_id = %s AND role IN ({marks})"  # noqa: S608
        return cls(sql, (_ID.get_db_prep_value(user_id, connection), *wanted))

    def with_below(self) -> "Nodes":
        return self._along("t.parent_id = found.id")

    def with_above(self) -> "Nodes":
        return self._along("t.id = found.parent_id")

    def _along(self, step: str) -> "Nodes":
        return Nodes(
            f"WITH RECURSIVE found(id, parent_id) AS (SELECT id, parent_id FROM {_TENANTS} WHERE id IN ({self.sql})"  # noqa: S608
            f" UNION SELECT t.id, t.parent_id FROM {_TENANTS} t JOIN found ON {step}) SELECT id FROM found",
            self.params,
        )

    def __and__(self, other: "Nodes") -> "Nodes":
        sql = f"SELECT id FROM {_TENANTS} WHERE id IN ({self.sql}) AND id IN ({other.sql})"  # noqa: S608
        return Nodes(sql, self.params + other.params)

    @property
    def ids(self) -> RawSQL:
        """For `filter(id__in=…)`."""
        return RawSQL(self.sql, self.params)  # noqa: S611 - see above


@dataclass(frozen=True, slots=True)
class Tree:
    """Some of the nodes, each with the one above it."""

    parents: dict[UUID, UUID | None]

    @classmethod
    def load(cls, nodes: Nodes | None = None) -> "Tree":
        """All of it, or these nodes."""
        rows = Tenant.objects.order_by() if nodes is None else Tenant.objects.order_by().filter(id__in=nodes.ids)
        return cls(dict(rows.values_list("id", "parent_id")))

    def path(self, tenant_id: UUID) -> list[UUID]:
        """From `tenant_id` up to its root, both included."""
        path: list[UUID] = []
        node: UUID | None = tenant_id
        while node is not None and node not in path:
            path.append(node)
            node = self.parents.get(node)
        return path

    def subtree(self, tenant_ids: Iterable[UUID]) -> set[UUID]:
        """The nodes and all below them."""
        tops = set(tenant_ids)
        return {node for node in self.parents if not tops.isdisjoint(self.path(node))}


def path_to(tenant_id: UUID) -> list[UUID]:
    """From the node up to its root, both included."""
    return Tree.load(Nodes.one(tenant_id).with_above()).path(tenant_id)
