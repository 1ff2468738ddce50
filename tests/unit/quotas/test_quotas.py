"""Setting and reading quotas."""

from typing import Any

import pytest

from apps.audit.models import Event
from apps.core.errors import Conflict, InvalidInput, NotFound, NotPermitted
from apps.core.share import GIB
from apps.experiments.services import request_experiment
from apps.quotas import ledger, selectors, services
from apps.quotas.models import Claim, Quota
from tests.factories import NO_GPU, SLICE, World, quota, tenant

pytestmark = pytest.mark.django_db


def ask(world: World, who: str = "member", **fields: Any) -> Any:
    wanted = {
        "actor": getattr(world, who),
        "tenant": world.lab,
        "name": "x",
        "environment": world.environment,
        "resources": SLICE,
    }
    return request_experiment(**{**wanted, **fields})


def line(rows: list[selectors.Line], dimension: str) -> selectors.Line:
    return next(row for row in rows if row.dimension == dimension)


def test_a_change_names_what_it_changes_and_leaves_the_rest(world: World) -> None:
    effect = services.set_quota(actor=world.operator, tenant=world.lab, limits={"running": 3, "gpu_compute": None})
    stored = Quota.objects.get(tenant=world.lab)
    assert (stored.running, stored.gpu_compute, stored.gpu_memory) == (3, None, 40 * GIB)
    assert effect.version == stored.version == 2
    event = Event.objects.get(verb="quota.set")
    assert (event.before["running"], event.after["running"]) == (None, 3)


def test_a_dry_run_tells_who_would_be_above_and_changes_nothing(world: World) -> None:
    ask(world)
    effect = services.set_quota(actor=world.operator, tenant=world.lab, limits={"gpu_memory": 4 * GIB}, dry_run=True)
    assert [(row.dimension, row.used, row.limit) for row in effect.above] == [("gpu_memory", 8 * GIB, 4 * GIB)]
    assert Quota.objects.get(tenant=world.lab).gpu_memory == 40 * GIB
    assert not Event.objects.filter(verb="quota.set").exists()


def test_lowering_below_use_keeps_what_runs(world: World) -> None:
    ask(world)
    services.set_quota(actor=world.operator, tenant=world.lab, limits={"gpu_memory": 4 * GIB})
    assert ledger.held().count() == 1
    assert line(selectors.lines(world.lab), "gpu_memory").permille == 2000


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(world: World) -> None:
    services.set_quota(actor=world.operator, tenant=world.lab, limits={"running": 3}, expected_version=1)
    with pytest.raises(Conflict) as refused:
        services.set_quota(actor=world.operator, tenant=world.lab, limits={"running": 4}, expected_version=1)
    assert refused.value.evidence == {"version": 2, "expected_version": 1}


def test_setting_the_same_again_is_no_change(world: World) -> None:
    services.set_quota(actor=world.operator, tenant=world.lab, limits={"gpu_compute": 1000})
    assert Quota.objects.get(tenant=world.lab).version == 1
    assert not Event.objects.exists()


def test_the_first_quota_of_a_tenant_has_version_one(world: World) -> None:
    bare = tenant(parent=world.department)
    assert services.set_quota(actor=world.operator, tenant=bare, limits={"running": 1}, expected_version=0).version == 1


@pytest.mark.parametrize(
    "limits", [{"running": -1}, {"running": True}, {"gpu_memory": 2**70}, {"gpus": 1}, {"running": "3"}]
)
def test_senseless_limits_are_told_by_field(world: World, limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        services.set_quota(actor=world.operator, tenant=world.lab, limits=limits)
    assert set(refused.value.fields) == set(limits)


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("manager", NotPermitted),
        ("member", NotPermitted),
        ("auditor", NotPermitted),
        ("stranger", NotFound),
        ("outsider", NotFound),
    ],
)
def test_only_those_above_set_a_quota(world: World, who: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        services.set_quota(actor=getattr(world, who), tenant=world.lab, limits={"running": 9})
    services.set_quota(actor=world.head, tenant=world.lab, limits={"running": 9})


def test_headroom_is_the_tightest_limit_on_the_way_up(world: World) -> None:
    quota(world.department, gpu_memory=12 * GIB)
    ask(world)
    rows = selectors.headroom(world.lab, world.member.user_id)
    memory, person = line(rows, "gpu_memory"), line(rows, "running_per_user")
    assert (memory.used, memory.limit, memory.free, memory.of_tenant) == (8 * GIB, 12 * GIB, 4 * GIB, "Research")
    assert (person.used, person.limit, person.of_tenant) == (1, 2, "Vision Lab")
    assert line(rows, "ram").limit is None
    assert line(selectors.headroom(world.lab, None), "running_per_user").used == 0


def test_holders_are_those_of_the_tenant_and_below_it(world: World) -> None:
    small = ask(world, resources=NO_GPU)
    large = ask(world, "colleague")
    ask(world, "stranger", tenant=world.other_lab)
    assert [claim.workload_id for claim in selectors.holders(world.lab)] == [large.id, small.id]
    assert selectors.holders(world.department).count() == 3
    assert selectors.holders(tenant()).count() == 0


def test_a_claim_is_given_back_once(world: World) -> None:
    asked = ask(world)
    assert services.settle(workload_id=asked.id, run=1)
    assert not services.settle(workload_id=asked.id, run=1)
    assert Claim.objects.get().settled_at is not None


def test_an_earlier_runs_end_does_not_give_a_later_claim_back(world: World) -> None:
    asked = ask(world)
    Claim.objects.update(run=2)
    assert not services.settle(workload_id=asked.id, run=1)
    assert ledger.held().count() == 1


def test_headroom_costs_the_same_for_few_and_many(world: World, django_assert_max_num_queries: Any) -> None:
    quota(world.lab)
    Quota.objects.update(running_per_user=None, gpu_compute=None, gpu_memory=None)
    for _ in range(10):
        ask(world)
        tenant(parent=world.department)
    with django_assert_max_num_queries(4):
        selectors.headroom(world.lab, world.member.user_id)
