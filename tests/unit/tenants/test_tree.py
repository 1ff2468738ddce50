"""Sets of tenants in SQL against the same by hand, for every tree."""

from uuid import UUID, uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.tenants.models import Tenant, TenantKind
from apps.tenants.tree import Nodes, Tree, path_to

# For each node the place of the one above it among those before it; none: a root.
SHAPES = st.lists(st.integers(0, 30), min_size=1, max_size=12)


class Undo(Exception):
    """Ends an example's transaction."""


def plant(shape: list[int]) -> list[UUID]:
    ids: list[UUID] = []
    for number, above in enumerate(shape):
        parent = ids[above % (number + 1) - 1] if above % (number + 1) else None
        ids.append(uuid4())
        Tenant.objects.create(
            id=ids[-1], kind=TenantKind.DEPARTMENT, slug=f"t-{number}", name=f"T {number}", parent_id=parent
        )
    return ids


def ids_in(nodes: Nodes) -> set[UUID]:
    return set(Tenant.objects.filter(id__in=nodes.ids).values_list("id", flat=True))


@pytest.mark.django_db
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=SHAPES, one=st.integers(0, 30), other=st.integers(0, 30))
def test_sql_finds_what_walking_finds(shape: list[int], one: int, other: int) -> None:
    try:
        with transaction.atomic():
            ids = plant(shape)
            first, second = ids[one % len(ids)], ids[other % len(ids)]
            whole = Tree.load()
            below, above = Nodes.one(first).with_below(), Nodes.one(second).with_above()
            assert ids_in(below) == whole.subtree([first])
            assert ids_in(above) == set(whole.path(second))
            assert ids_in(below & above) == whole.subtree([first]) & set(whole.path(second))
            assert ids_in(below.with_above()) == whole.subtree([first]) | set(whole.path(first))
            assert path_to(second) == whole.path(second)
            raise Undo
    except Undo:
        pass


@pytest.mark.django_db
def test_all_and_none() -> None:
    ids = plant([0, 1, 1])
    assert ids_in(Nodes.all()) == {*ids, *Tenant.objects.values_list("id", flat=True)}
    assert ids_in(Nodes.none()) == set()
    assert ids_in(Nodes.none().with_below()) == set()
