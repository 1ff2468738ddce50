"""Who may call what: every operation, every kind of person. An operation that no row names fails `test_every_operation_is_named`."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator

from apps.accounts.scopes import SCOPES
from apps.api.permissions import scope_for
from apps.api.urls import urlpatterns
from apps.workloads.models import Workload
from tests.factories import World, member
from tests.unit.api.conftest import Call, Caller

PEOPLE = ("member", "colleague", "viewer", "manager", "head", "operator", "auditor", "stranger", "outsider")


@dataclass(frozen=True)
class Row:
    """`who` answered with `good`; the rest of the lab's people with 403; everybody else with 404 (or `hidden`)."""

    method: str
    path: str
    good: int
    who: tuple[str, ...]
    body: Any = None
    hidden: int = 404
    headers: dict[str, str] = field(default_factory=dict)
    refused: int = 403
    others: dict[str, int] = field(default_factory=dict)

    def expected(self, person: str) -> int:
        if person in self.who:
            return self.good
        if person in self.others:
            return self.others[person]
        return self.hidden if person in ("stranger", "outsider") else self.refused


EVERYBODY = PEOPLE
SEES = ("member", "colleague", "viewer", "manager", "head", "operator", "auditor")
ENDS = ("member", "manager", "head", "operator")
STARTS = ("member", "operator")
RUNS = ("member", "colleague", "manager", "head", "operator")
MANAGES = ("manager", "head", "operator")
ABOVE = ("head", "operator")
OPERATOR = ("operator",)
OVERWRITE = {"If-Match": "*"}
NEW = {"tenant": "{lab}", "name": "x", "environment": "notebook", "flavour": "medium"}
FLAVOUR = {"name": "x", "resources": {"gpu": None, "cpu_milli": 1000, "ram_bytes": 2**30}}
OPEN_LIMITS = {
    "gpu_memory_bytes": None,
    "gpu_compute_permille": None,
    "cpu_milli": None,
    "ram_bytes": None,
    "running": 1,
    "running_per_user": None,
    "pending": None,
}

ROWS = (
    Row("GET", "me", 200, EVERYBODY),
    Row("GET", "version", 200, EVERYBODY),
    Row("GET", "tenants", 200, EVERYBODY),
    Row(
        "POST",
        "tenants",
        201,
        ABOVE,
        {"name": "New", "parent": "{department}"},
        hidden=422,
        refused=422,
        others={"auditor": 403},
    ),
    Row("GET", "tenants/{lab}", 200, SEES),
    Row("PATCH", "tenants/{lab}", 200, MANAGES, {"name": "Renamed"}),
    Row("GET", "tenants/{lab}/members", 200, SEES),
    Row("PUT", "tenants/{lab}/members/outsider", 200, MANAGES, {"role": "viewer"}),
    Row("DELETE", "tenants/{lab}/members/viewer", 204, MANAGES),
    Row("GET", "tenants/{lab}/quota", 200, SEES),
    Row("PUT", "tenants/{lab}/quota", 200, ABOVE, {"limits": OPEN_LIMITS}, headers=OVERWRITE),
    Row("PATCH", "tenants/{lab}/quota", 200, ABOVE, {"limits": {"running": 3}}, headers=OVERWRITE),
    Row("GET", "environments", 200, EVERYBODY),
    Row("GET", "environments/notebook", 200, EVERYBODY),
    Row("PUT", "environments/notebook", 200, OPERATOR, {"name": "x", "key": "notebook"}, hidden=403),
    Row("GET", "flavours", 200, EVERYBODY),
    Row("GET", "flavours/medium", 200, EVERYBODY),
    Row("PUT", "flavours/medium", 200, OPERATOR, FLAVOUR, hidden=403),
    Row("GET", "experiments", 200, EVERYBODY),
    Row("POST", "experiments", 202, RUNS, NEW, hidden=422),
    Row("GET", "experiments/{own}", 200, SEES),
    Row("PATCH", "experiments/{own}", 200, ENDS, {"name": "Renamed"}),
    Row("DELETE", "experiments/{own}", 202, ENDS),
    Row("POST", "experiments/{own}/stop", 202, ENDS),
    Row("POST", "experiments/{own}/start", 202, STARTS),
    Row("POST", "experiments/{own}/extend", 200, ENDS, {"seconds": 60}),
    Row("POST", "experiments/{own}/resize", 409, ENDS, {"memory_bytes": 6 * 2**30}),  # it has not started yet
    Row("GET", "experiments/{own}/logs", 200, SEES),
    Row("GET", "experiments/{own}/metrics", 200, SEES),
    Row("GET", "experiments/{own}/steps", 200, SEES),
    Row("GET", "experiments/{own}/explanation", 200, SEES),
    Row("GET", "gpus", 200, EVERYBODY),
    Row("GET", "gpus/GPU-h100", 200, (*SEES, "stranger")),
    Row("GET", "cluster/diagnosis", 404, OPERATOR, hidden=403),  # the cluster in memory has nothing to look at
    Row("GET", "tokens", 200, EVERYBODY),
    Row("POST", "tokens", 201, EVERYBODY, {"name": "x", "scopes": ["read"]}),
    Row("DELETE", "tokens/{token}", 204, STARTS, refused=404),
    Row("GET", "events", 200, EVERYBODY),
)
SIGNED_IN = [row for row in ROWS if row.path != "version"]
OF_A_TENANT = [row for row in ROWS if "{lab}" in row.path or "{own}" in row.path]


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    return value.format(**names) if isinstance(value, str) else value


def _send(caller: Caller, row: Row, names: dict[str, str]) -> Any:
    """Undone afterwards, so that the next person finds the same world."""
    with transaction.atomic():
        answer = caller.send(row.method, _filled(row.path, names), _filled(row.body, names), **row.headers)
        transaction.set_rollback(True)
    return answer


@pytest.fixture
def names(world: World, experiment: Workload, call: Call) -> dict[str, str]:
    token = call(world.member).get("tokens").json()["items"][0]["id"]
    return {
        "lab": world.lab.slug,
        "department": world.department.slug,
        "own": str(experiment.id),
        "token": token,
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_each_person_gets_what_their_role_allows(row: Row, world: World, names: dict[str, str], call: Call) -> None:
    answered = {person: _send(call(getattr(world, person)), row, names).status_code for person in PEOPLE}
    assert answered == {person: row.expected(person) for person in PEOPLE}


@pytest.mark.parametrize("row", SIGNED_IN, ids=lambda row: f"{row.method} {row.path}")
def test_a_token_without_the_scope_is_told_which_one_it_lacks(
    row: Row, world: World, names: dict[str, str], call: Call
) -> None:
    needed = scope_for(_view(row), row.method)
    answer = _send(call(world.operator, *(set(SCOPES) - {needed})), row, names)
    assert answer.status_code == 403
    assert answer.json()["code"] == "missing_scope"
    assert answer.json()["evidence"]["needed"] == needed


@pytest.mark.parametrize("row", SIGNED_IN, ids=lambda row: f"{row.method} {row.path}")
def test_nobody_gets_anything_without_signing_in(row: Row, names: dict[str, str]) -> None:
    answer = _send(Caller(), row, names)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "not_authenticated"


@pytest.mark.parametrize("row", OF_A_TENANT, ids=lambda row: f"{row.method} {row.path}")
def test_a_token_restricted_to_another_tenant_finds_nothing_here(
    row: Row, world: World, names: dict[str, str], call: Call
) -> None:
    """Of somebody who belongs to both: the token narrows, also what is one's own."""
    assert world.member.user is not None
    member(world.other_lab, world.member.user)
    assert _send(call(world.member, tenant_id=world.other_lab.id), row, names).status_code == 404


def test_lists_show_the_outsider_nothing_of_any_tenant(world: World, names: dict[str, str], call: Call) -> None:
    outside = call(world.outsider)
    for path in ("tenants", "experiments", "gpus", "events"):
        assert outside.get(path).json() == {"items": [], "next": None, "previous": None}, path


def test_a_stranger_sees_the_gpu_and_how_much_is_held_but_not_by_whom(
    world: World, site: Any, experiment: Workload, call: Call
) -> None:
    from apps.cluster.models import Gpu

    Gpu.objects.filter(uuid="GPU-h100").update(
        holders=[{"uid": str(experiment.id), "memory": 5, "compute": 300, "ceiling": 300}]
    )
    theirs = call(world.stranger).get("gpus/GPU-h100").json()["holders"]
    mine = call(world.member).get("gpus/GPU-h100").json()["holders"]
    assert [(h["experiment_id"], h["name"], h["memory_bytes"]) for h in theirs] == [(None, None, 5)]
    assert [(h["experiment_id"], h["name"]) for h in mine] == [(str(experiment.id), "First steps")]


def test_lists_restricted_by_a_token_show_that_tenant_only(world: World, experiment: Workload, call: Call) -> None:
    assert world.member.user is not None
    member(world.other_lab, world.member.user)
    there = call(world.member, tenant_id=world.other_lab.id)
    assert there.get("experiments").json()["items"] == []
    assert [t["slug"] for t in there.get("tenants").json()["items"]] == [world.other_lab.slug]


def test_an_operators_token_without_the_platform_scope_is_a_persons(
    world: World, experiment: Workload, call: Call
) -> None:
    plain = call(world.operator, "read", "experiments:write")
    assert plain.get("experiments").json()["items"] == []
    assert plain.post(f"experiments/{experiment.id}/stop").status_code == 404


def test_every_operation_is_named_here() -> None:
    schema = SchemaGenerator().get_schema(public=True)
    there = {
        f"{method.upper()} {_shape(path.removeprefix('/api/v1/'))}"
        for path, methods in schema["paths"].items()
        for method in methods
    }
    assert {f"{row.method} {_shape(row.path)}" for row in ROWS} == there


def _shape(path: str) -> str:
    """Without the values of its parts: `tenants/{}/members/{}`."""
    path = re.sub(r"\{[^}]*\}", "{}", path)
    known = r"^(environments|flavours|gpus)/[^/{}]+$"
    path = re.sub(known, r"\1/{}", path)
    return re.sub(r"members/[^/{}]+$", "members/{}", path)


def _view(row: Row) -> Any:
    for pattern in urlpatterns:
        found = pattern.pattern.match(f"v1/{_filled(row.path, _IDS)}")
        if found and found[0] == "":
            callback: Any = pattern.callback
            return callback.cls
    raise AssertionError(f"no address for {row.path}")


_IDS = dict.fromkeys(("own", "token"), "00000000-0000-4000-8000-000000000000") | {"lab": "lab", "department": "top"}
