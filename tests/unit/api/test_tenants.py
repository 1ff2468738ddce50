"""Tenants, members, quotas."""

from typing import Any

import pytest

from apps.audit.models import Event
from apps.quotas.models import Quota
from apps.tenants.models import Membership, Tenant
from apps.workloads.models import Workload
from tests.factories import World
from tests.unit.api.conftest import Call

GIB = 2**30


def test_a_person_lists_the_tenants_with_the_own_role(world: World, call: Call) -> None:
    items = call(world.head).get("tenants").json()["items"]
    assert [(t["name"], t["role"]) for t in items] == [
        ("Research", "manager"),
        ("Speech Lab", "manager"),
        ("Vision Lab", "manager"),
    ]
    items = call(world.viewer).get("tenants").json()["items"]
    assert [(t["name"], t["role"], t["parent"]["name"]) for t in items] == [("Vision Lab", "viewer", "Research")]


def test_tenants_are_filtered(world: World, call: Call) -> None:
    everything = call(world.auditor)
    assert [t["name"] for t in everything.get("tenants?kind=department").json()["items"]] == ["Research"]
    assert len(everything.get(f"tenants?parent={world.department.slug}").json()["items"]) == 2
    assert [t["name"] for t in everything.get("tenants?q=spee").json()["items"]] == ["Speech Lab"]
    assert everything.get("tenants?kind=planet").status_code == 422


def test_a_list_of_tenants_takes_a_fixed_number_of_queries(
    world: World, call: Call, django_assert_max_num_queries: Any
) -> None:
    mine = call(world.head)
    for n in range(20):
        Tenant.objects.create(name=f"more {n}", slug=f"more-{n}", parent=world.department)
    with django_assert_max_num_queries(16):
        assert len(mine.get("tenants").json()["items"]) == 23


def test_a_tenant_is_made_below_a_department_and_recorded(world: World, call: Call) -> None:
    answer = call(world.head).post("tenants", {"name": "视觉二组", "parent": world.department.slug})
    assert answer.status_code == 201
    made = answer.json()
    assert answer["Location"] == f"/api/v1/tenants/{made['slug']}"
    assert (made["name"], made["kind"], made["role"]) == ("视觉二组", "tenant", "manager")
    assert Event.objects.get(verb="tenant.create").target_label == "视觉二组"


def test_a_tenant_below_a_tenant_is_refused(world: World, call: Call) -> None:
    answer = call(world.operator).post("tenants", {"name": "x", "parent": world.lab.slug})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "parent"


def test_renaming_keeps_the_address(world: World, call: Call) -> None:
    boss = call(world.manager)
    boss.patch(f"tenants/{world.lab.slug}", {"name": "Vision"})
    assert boss.get(f"tenants/{world.lab.slug}").json()["name"] == "Vision"


def test_a_member_is_added_changed_and_removed(world: World, call: Call) -> None:
    boss, path = call(world.manager), f"tenants/{world.lab.slug}/members/outsider"
    for role in ("viewer", "member", "member"):
        answer = boss.put(path, {"role": role})
        assert (answer.status_code, answer.json()["role"]) == (200, role)
    assert call(world.outsider).get(f"tenants/{world.lab.slug}").status_code == 200
    assert boss.delete(path).status_code == 204
    assert boss.delete(path).status_code == 404
    assert call(world.outsider).get(f"tenants/{world.lab.slug}").status_code == 404


def test_only_who_may_add_people_learns_which_names_exist(world: World, call: Call) -> None:
    path = f"tenants/{world.lab.slug}/members"
    for name in ("outsider", "nobody-of-that-name"):
        assert call(world.member).put(f"{path}/{name}", {"role": "viewer"}).status_code == 403
        assert call(world.stranger).put(f"{path}/{name}", {"role": "viewer"}).status_code == 404
    assert call(world.manager).put(f"{path}/nobody-of-that-name", {"role": "viewer"}).status_code == 404


def test_the_last_manager_stays(world: World, call: Call) -> None:
    answer = call(world.manager).put(f"tenants/{world.lab.slug}/members/manager", {"role": "viewer"})
    assert answer.status_code == 409
    assert Membership.objects.get(user=world.manager.user).role == "manager"


def test_roles_from_above_are_listed_apart(world: World, call: Call) -> None:
    mine, path = call(world.member), f"tenants/{world.lab.slug}/members"
    assert "head" not in [m["username"] for m in mine.get(path).json()["items"]]
    above = mine.get(f"{path}?inherited=true").json()["items"]
    assert [(m["username"], m["role"], m["tenant"]["name"]) for m in above] == [("head", "manager", "Research")]


def test_a_quota_shows_limits_and_what_is_held(world: World, experiment: Workload, call: Call) -> None:
    answer = call(world.viewer).get(f"tenants/{world.lab.slug}/quota")
    body = answer.json()
    assert answer["ETag"] == f'"{body["version"]}"'
    assert body["limits"]["gpu_memory_bytes"] == 40 * GIB
    lines = {line["dimension"]: line for line in body["lines"]}
    assert lines["gpu_memory_bytes"] | {"tenant": ""} == {
        "dimension": "gpu_memory_bytes", "used": 8 * GIB, "limit": 40 * GIB, "free": 32 * GIB, "tenant": "",
    }  # fmt: skip


def _put(limits: dict[str, int | None], **others: int | None) -> dict[str, Any]:
    named = dict.fromkeys(
        ("gpu_memory_bytes", "gpu_compute_permille", "cpu_milli", "ram_bytes", "running", "running_per_user", "pending")
    )
    return {"limits": {**named, **limits, **others}}


def test_a_quota_is_replaced_with_the_etag_that_was_read(world: World, call: Call) -> None:
    boss, path = call(world.head), f"tenants/{world.lab.slug}/quota"
    tag = boss.get(path)["ETag"]
    answer = boss.put(path, _put({"running": 4}), If_Match=tag)
    assert answer.status_code == 200
    assert answer.json()["limits"] == _put({"running": 4})["limits"]
    assert answer["ETag"] != tag
    again = boss.put(path, _put({"running": 9}), If_Match=tag)
    assert again.status_code == 412
    assert again.json()["evidence"]["current_etag"] == answer["ETag"]
    assert Quota.objects.get(tenant=world.lab).running == 4


def test_a_quota_change_without_if_match_is_refused(world: World, call: Call) -> None:
    answer = call(world.head).put(f"tenants/{world.lab.slug}/quota", _put({"running": 4}))
    assert answer.status_code == 428
    assert answer.json()["code"] == "precondition_required"


def test_somebody_faster_between_reading_and_lock_is_a_412_too(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.quotas import selectors

    old = selectors.quota_of(world.lab)
    assert old is not None
    Quota.objects.filter(tenant=world.lab).update(version=old.version + 1)
    monkeypatch.setattr("apps.api.views.quotas.selectors.quota_of", lambda _tenant: old)
    answer = call(world.head).put(f"tenants/{world.lab.slug}/quota", _put({}), If_Match="*")
    assert answer.status_code == 412


def test_a_replacement_names_every_limit(world: World, call: Call) -> None:
    answer = call(world.head).put(f"tenants/{world.lab.slug}/quota", {"limits": {"running": 1}}, If_Match="*")
    assert answer.status_code == 422
    assert "limits.pending" in {error["field"] for error in answer.json()["errors"]}


def test_a_patch_leaves_the_other_limits(world: World, call: Call) -> None:
    body = call(world.head).patch(f"tenants/{world.lab.slug}/quota", {"limits": {"running": 1}}, If_Match="*").json()
    assert (body["limits"]["running"], body["limits"]["gpu_memory_bytes"]) == (1, 40 * GIB)


def test_a_patch_of_a_tenant_without_a_quota_opens_only_what_it_names(world: World, call: Call) -> None:
    Quota.objects.filter(tenant=world.lab).delete()
    boss, path = call(world.head), f"tenants/{world.lab.slug}/quota"
    assert set(boss.get(path).json()["limits"].values()) == {0}
    body = boss.patch(path, {"limits": {"running": 2}}, If_Match='"0"').json()
    assert body["limits"] == dict.fromkeys(body["limits"], 0) | {"running": 2}


def test_a_dry_run_shows_who_is_above_and_changes_nothing(world: World, experiment: Workload, call: Call) -> None:
    boss, path = call(world.head), f"tenants/{world.lab.slug}/quota"
    before = boss.get(path).json()
    answer = boss.put(f"{path}?dry_run=true", _put({"gpu_memory_bytes": GIB}))
    assert answer.status_code == 200
    assert answer.json()["above"] == ["gpu_memory_bytes"]
    assert answer.json()["dry_run"] is True
    assert boss.get(path).json() == before


def test_a_quota_is_made_of_whole_numbers(world: World, call: Call) -> None:
    for wrong in (-1, 2**62, 1.5, "1", True):
        answer = call(world.head).put(f"tenants/{world.lab.slug}/quota", _put({"running": wrong}), If_Match="*")  # type: ignore[dict-item]
        assert answer.status_code == 422, wrong
