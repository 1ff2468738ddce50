"""Tokens, oneself, GPUs, the audit trail, the catalogue."""

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import ApiToken
from apps.accounts.scopes import SCOPES
from apps.audit.models import Event
from apps.catalog.models import Environment, Flavour
from apps.cluster.models import Gpu
from apps.core import clock
from apps.telemetry.models import Sample, Step
from apps.workloads.models import Workload
from tests.conftest import Clock
from tests.factories import World
from tests.fakes.cluster import FakeCluster
from tests.unit.api.conftest import Call, Caller


def test_a_token_shows_its_secret_once_and_works(world: World, call: Call) -> None:
    mine = call(world.member)
    answer = mine.post("tokens", {"name": "CI", "scopes": ["read"], "tenant": world.lab.slug})
    made = answer.json()
    assert answer.status_code == 201
    assert made["secret"].startswith("tsr_")
    assert (made["scopes"], made["tenant"]) == (["read"], world.lab.slug)
    listed = mine.get("tokens").json()["items"]
    assert [token["name"] for token in listed] == ["CI", "test"]
    assert all("secret" not in token for token in listed)
    fresh = Caller(made["secret"])
    assert fresh.get("experiments").status_code == 200
    assert fresh.post("tokens", {"name": "x", "scopes": ["read"]}).status_code == 403


def test_a_token_ends_after_a_month_unless_told_otherwise(world: World, stopped_clock: Clock, call: Call) -> None:
    mine = call(world.member)
    ApiToken.objects.update(expiry=None)
    before = ApiToken.objects.count()
    made = mine.post("tokens", {"name": "x", "scopes": ["read"]}).json()
    row = ApiToken.objects.get(id=made["id"])
    assert row.expiry is not None
    assert timedelta(days=29) < row.expiry - row.created <= timedelta(days=30, seconds=1)
    assert ApiToken.objects.count() == before + 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "", "scopes": ["read"]}, "name"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["everything"]}, "scopes.0"),
        ({"name": "x", "scopes": ["read"], "expires_in_seconds": 400 * 86400}, "expires_in_seconds"),
        ({"name": "x", "scopes": ["read"], "tenant": "nowhere"}, "tenant"),
    ],
)
def test_a_token_that_cannot_be_made_names_why(world: World, call: Call, body: dict[str, Any], field: str) -> None:
    answer = call(world.member).post("tokens", body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_token_makes_no_token_that_may_more(world: World, call: Call) -> None:
    narrow = call(world.member, "read", "tokens:write")
    assert narrow.post("tokens", {"name": "x", "scopes": ["read", "experiments:write"]}).status_code == 403
    assert narrow.post("tokens", {"name": "x", "scopes": ["read"]}).status_code == 201
    tied = call(world.member, *SCOPES, tenant_id=world.lab.id)
    assert tied.post("tokens", {"name": "x", "scopes": ["read"]}).status_code == 403
    assert tied.post("tokens", {"name": "x", "scopes": ["read"], "tenant": world.lab.slug}).status_code == 201


def test_other_peoples_tokens_are_not_there(world: World, call: Call) -> None:
    theirs = call(world.colleague).get("tokens").json()["items"][0]["id"]
    assert call(world.member).delete(f"tokens/{theirs}").status_code == 404
    assert ApiToken.objects.filter(id=theirs).exists()


def test_me_tells_roles_and_the_token(world: World, call: Call) -> None:
    body = call(world.manager, "read", tenant_id=world.lab.id).get("me").json()
    assert body["tenants"] == [{"slug": world.lab.slug, "name": "Vision Lab", "role": "manager"}]
    assert (body["token"]["scopes"], body["token"]["tenant"]) == (["read"], world.lab.slug)
    assert call(world.operator).get("me").json()["platform_role"] == "operator"
    assert call(world.outsider).get("me").json()["tenants"] == []


def test_gpus_show_promised_and_used_side_by_side(world: World, site: FakeCluster, call: Call) -> None:
    Gpu.objects.filter(uuid="GPU-h100").update(
        holders=[{"uid": "x", "memory": 8 * 2**30, "compute": 300, "ceiling": 300}]
    )
    Sample.objects.create(step=Step.SECOND, subject="card:GPU-h100", at=int(clock.now().timestamp()), compute_used=290)
    items = {gpu["uuid"]: gpu for gpu in call(world.viewer).get("gpus").json()["items"]}
    assert items["GPU-h100"]["allocated_compute_permille"] == 300
    assert items["GPU-h100"]["use"]["compute_used_permille"] == 290
    assert items["GPU-h100"]["use"]["memory_used_bytes"] is None
    assert items["GPU-l40s"]["use"] is None
    assert len(call(world.viewer).get("gpus?model=L40S").json()["items"]) == 1


def test_managers_read_the_trail_of_their_tenants_only(world: World, experiment: Workload, call: Call) -> None:
    verbs = [event["verb"] for event in call(world.manager).get("events").json()["items"]]
    assert "experiment.create" in verbs
    assert "token.create" not in verbs
    assert "token.create" in [event["verb"] for event in call(world.auditor).get("events").json()["items"]]
    for person in (world.member, world.viewer, world.stranger):
        assert call(person).get("events").json()["items"] == []


def test_the_trail_is_filtered(world: World, experiment: Workload, call: Call) -> None:
    auditor = call(world.auditor)

    def found(query: str) -> set[str]:
        return {event["verb"] for event in auditor.get(f"events?{query}").json()["items"]}

    assert found(f"target_id={experiment.id}") == {"experiment.create"}
    assert found("verb=experiment.create") == {"experiment.create"}
    assert found(f"tenant={world.lab.slug}") == {"experiment.create"}
    assert found(f"actor_id={world.member.user_id}&target_type=workload") == {"experiment.create"}
    assert found("before=2000-01-01T00:00:00Z") == set()
    assert auditor.get("events?actor_id=me").status_code == 422


def test_a_flavour_is_made_changed_and_withdrawn(world: World, site: FakeCluster, call: Call) -> None:
    boss = call(world.operator)
    body = {
        "name": "Tiny",
        "name_zh": "迷你",
        "resources": {"gpu": {"memory_bytes": 2**31, "compute_permille": 50}, "cpu_milli": 500, "ram_bytes": 2**30},
    }
    made = boss.put("flavours/tiny", body)
    assert made.status_code == 200
    assert made.json()["resources"]["gpu"]["ceiling_permille"] == 50
    assert call(world.outsider).get("flavours/tiny").json()["name_zh"] == "迷你"
    assert boss.put("flavours/tiny", body | {"is_active": False}).json()["is_active"] is False
    assert call(world.outsider).get("flavours/tiny").status_code == 404
    assert Flavour.objects.get(slug="tiny").gpu_memory == 2**31
    assert Event.objects.filter(verb="flavour.set").count() == 2


def test_a_flavour_without_a_gpu(world: World, site: FakeCluster, call: Call) -> None:
    body = {"name": "CPU", "resources": {"gpu": None, "cpu_milli": 500, "ram_bytes": 2**30}}
    assert call(world.operator).put("flavours/cpu", body).json()["resources"]["gpu"] is None
    asked = {"tenant": world.lab.slug, "name": "x", "environment": "notebook", "flavour": "cpu"}
    assert call(world.member).post("experiments", asked).json()["resources"]["gpu"] is None


def test_an_environment_is_made(world: World, call: Call) -> None:
    answer = call(world.operator).put("environments/torch", {"name": "Torch", "key": "torch"})
    assert answer.status_code == 200
    assert Environment.objects.get(slug="torch").kind == "experiment"
    assert {e["slug"] for e in call(world.member).get("environments").json()["items"]} == {"notebook", "torch"}
