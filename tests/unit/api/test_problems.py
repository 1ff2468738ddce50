"""Errors are application/problem+json wherever they happen below /api/."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from apps.api import problems
from apps.api.problem_kinds import KINDS, type_uri
from apps.core import errors
from apps.core.errors import InvalidInput, PortalError
from tests.factories import SLICE, World
from tests.unit.api.conftest import Call

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "hint", "errors", "evidence", "request_id"}


def _is_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) == MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["title"]
    assert body["detail"]
    assert body["hint"]
    assert body["request_id"] == answer["X-Request-ID"]
    return body


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["v1/nothing", "v2/me", "", "v1/experiments/no-uuid", "v1/tenants/x/y/z"])
def test_what_is_not_there_is_a_problem_for_every_method(method: str, path: str) -> None:
    answer = Client().generic(method, f"/api/{path}", "{}", content_type="application/json")
    body = answer.json()
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
    assert body["code"] == "not_found"
    assert body["instance"] == f"/api/{path}"


def test_a_slash_too_many_is_named(world: World, call: Call) -> None:
    assert call(world.member).get("experiments/").json()["hint"] == "Addresses have no slash at the end."


def test_a_wrong_method_names_the_right_ones(world: World, call: Call) -> None:
    answer = call(world.member).put("experiments", {})
    _is_problem(answer, 405, "method_not_allowed")
    assert answer["Allow"] == "GET, HEAD, POST"


def test_a_body_that_is_no_json_is_a_parse_error(world: World, call: Call) -> None:
    mine = call(world.member)
    answer = mine.client.post(
        "/api/v1/experiments", "{", content_type="application/json", headers={"Authorization": f"Bearer {mine.token}"}
    )
    _is_problem(answer, 400, "parse_error")


@pytest.mark.parametrize("body", ["\ud800", "[]", '"text"', "3", "null"])
def test_json_that_is_no_object_is_refused(world: World, call: Call, body: str) -> None:
    mine = call(world.member)
    answer = mine.client.post(
        "/api/v1/experiments",
        body.encode("utf-8", "surrogatepass"),
        content_type="application/json",
        headers={"Authorization": f"Bearer {mine.token}"},
    )
    assert answer.status_code in (400, 422)
    assert answer["Content-Type"] == "application/problem+json"


def test_a_form_is_not_understood(world: World, call: Call) -> None:
    mine = call(world.member)
    answer = mine.client.post("/api/v1/experiments", {"name": "x"}, headers={"Authorization": f"Bearer {mine.token}"})
    _is_problem(answer, 415, "unsupported_media_type")


def test_a_format_that_is_not_spoken(world: World, call: Call) -> None:
    _is_problem(call(world.member).get("experiments", Accept="text/csv"), 406, "not_acceptable")


def test_a_body_larger_than_any_request_needs(world: World, call: Call, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    _is_problem(call(world.member).post("experiments", {"name": "x" * 200}), 413, "payload_too_large")


def test_every_wrong_field_is_named_by_its_path(world: World, site: object, call: Call) -> None:
    asked = {
        "tenant": world.lab.slug,
        "environment": "notebook",
        "nmae": "typed wrongly",
        "resources": {"gpu": {"memory_bytes": "8GiB", "compute_permille": 1001}, "cpu_milli": 1.5, "ram_bytes": True},
    }
    body = _is_problem(call(world.member).post("experiments", asked), 422, "invalid_input")
    assert {error["field"] for error in body["errors"]} == {"nmae"}
    del asked["nmae"]
    body = _is_problem(call(world.member).post("experiments", asked), 422, "invalid_input")
    assert {error["field"] for error in body["errors"]} == {
        "name",
        "resources.gpu.memory_bytes",
        "resources.gpu.compute_permille",
        "resources.cpu_milli",
        "resources.ram_bytes",
    }


def test_an_unknown_query_parameter_is_refused_with_the_known_ones(world: World, call: Call) -> None:
    body = _is_problem(call(world.member).get("experiments?tennant=x"), 422, "invalid_input")
    assert body["errors"][0]["field"] == "tennant"
    assert "tenant" in body["hint"]


def test_a_fault_of_ours_is_told_without_its_traceback(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("the secret detail")

    monkeypatch.setattr("apps.api.views.experiments.selectors.visible_to", broken)
    answer = call(world.member).get("experiments")
    _is_problem(answer, 500, "internal_error")
    assert b"secret" not in answer.content
    assert "the secret detail" in caplog.text


def test_a_database_that_does_not_answer_is_a_503_to_try_again(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = call(world.member)

    def locked(*_args: Any, **_kwargs: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("apps.api.views.experiments.selectors.visible_to", locked)
    answer = mine.get("experiments")
    _is_problem(answer, 503, "unavailable")
    assert int(answer["Retry-After"]) >= 1


def test_what_never_fits_is_refused_with_the_numbers_and_the_nearest_choice(
    world: World, site: object, call: Call
) -> None:
    asked: dict[str, Any] = {
        "tenant": world.lab.slug,
        "name": "Too large",
        "environment": "notebook",
        "resources": {
            "gpu": {"memory_bytes": 60 * 2**30, "compute_permille": 500},
            "cpu_milli": 1000,
            "ram_bytes": 2**31,
        },
    }
    body = _is_problem(call(world.member).post("experiments", asked), 422, "never_fits")
    assert body["evidence"]["dimension"] == "gpu_memory_bytes"
    assert (body["evidence"]["asked"], body["evidence"]["limit"]) == (60 * 2**30, 40 * 2**30)
    assert body["evidence"]["nearest"] == asked["resources"] | {
        "gpu": {"count": 1, "memory_bytes": 40 * 2**30, "compute_permille": 500, "ceiling_permille": 500}
    }
    asked["resources"] = body["evidence"]["nearest"]
    assert call(world.member).post("experiments", asked).status_code == 202


def test_evidence_names_nobody_elses_workload(world: World, site: object, call: Call) -> None:
    asked = {
        "tenant": world.other_lab.slug,
        "name": "Larger than any GPU",
        "environment": "notebook",
        "resources": {
            "gpu": {"memory_bytes": 100 * 2**30, "compute_permille": 500},
            "cpu_milli": 1000,
            "ram_bytes": 2**31,
        },
    }
    from apps.cluster.models import Gpu

    Gpu.objects.update(holders=[{"uid": "somebody", "memory": 1, "compute": 1, "ceiling": 1}])
    answer = call(world.stranger).post("experiments", asked)
    _is_problem(answer, 422, "never_fits")
    assert b"somebody" not in answer.content


def test_words_follow_the_language_and_codes_do_not(world: World, call: Call) -> None:
    chinese = call(world.member).get("tenants/nowhere", Accept_Language="zh-hans").json()
    english = call(world.member).get("tenants/nowhere", Accept_Language="en").json()
    assert chinese["code"] == english["code"] == "not_found"


def test_the_type_of_a_problem_leads_to_its_explanation(client: Client) -> None:
    for kind, known in KINDS.items():
        address = type_uri(kind)
        answer = client.get("/api/" + address.split("/api/", 1)[1])
        assert answer.json()["title"] == str(known.title)
    assert client.get("/api/problems/none").status_code == 404


def test_every_kind_of_portal_error_has_a_type_of_its_own_or_of_its_status() -> None:
    kinds: list[type[PortalError]] = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PortalError)
    ]
    assert len(kinds) > 6
    for kind in kinds:
        told = problems.known(kind("a sentence", hint="a hint", fields={"name": "wrong"}, evidence={"n": 1}))
        assert told.status == kind.status
        assert told.kind in KINDS
        assert told.errors == ({"field": "name", "code": kind.code, "message": "wrong"},)


def test_a_special_code_keeps_the_type_of_its_class() -> None:
    body = problems.known(InvalidInput("no", code="still_stopping", evidence={"resources": SLICE})).body("/here")
    assert body["type"].endswith("/invalid_input")
    assert body["code"] == "still_stopping"
    assert json.dumps(body["evidence"]["resources"]["gpu"]["memory_bytes"]) == str(8 * 2**30)
