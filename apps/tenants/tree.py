"""The tenant tree as plain ids: small (hundreds of rows), so it is read whole where a path or a subtree is needed."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from apps.tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class Tree:
    parents: dict[UUID, UUID | None]

    @classmethod
    def load(cls) -> "Tree":
        return cls(dict(Tenant.objects.order_by().values_list("id", "parent_id")))

    def path(self, tenant_id: UUID) -> list[UUID]:
        """From `tenant_id` up to its root, both included."""
        path: list[UUID] = []
        node: UUID | None = tenant_id
        while node is not None and node not in path:
            path.append(node)
            node = self.parents.get(node)
        return path

    def ancestors(self, tenant_ids: Iterable[UUID]) -> set[UUID]:
        return {above for tenant_id in tenant_ids for above in self.path(tenant_id)[1:]}

    def subtree(self, tenant_ids: Iterable[UUID]) -> set[UUID]:
        """The nodes and all below them."""
        tops = set(tenant_ids)
        return {node for node in self.parents if not tops.isdisjoint(self.path(node))}
