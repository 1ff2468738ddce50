"""A POST sent twice happens once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import ApiToken
from apps.api import idempotency
from apps.api.idempotency import KEPT_FOR
from apps.api.models import KeptReply
from apps.core.errors import Conflict
from apps.workloads.models import Workload
from tests.conftest import Clock
from tests.factories import World, flavour, member
from tests.factories import world as make_world
from tests.fakes.cluster import FakeCluster
from tests.unit.api.conftest import Call, Caller, token_for


def _asked(world: World, **changes: Any) -> dict[str, Any]:
    return {"tenant": world.lab.slug, "name": "Once", "environment": "notebook", "flavour": "medium"} | changes


def test_the_same_key_and_request_get_the_same_reply(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    first = mine.post("experiments", _asked(world), Idempotency_Key="k1")
    again = mine.post("experiments", _asked(world), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert again["ETag"] == first["ETag"]
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Workload.objects.count() == 1


def test_without_a_key_two_requests_are_two(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    mine.post("experiments", _asked(world))
    mine.post("experiments", _asked(world))
    assert Workload.objects.count() == 2


def test_the_order_of_a_body_does_not_matter(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    asked = _asked(world)
    mine.post("experiments", asked, Idempotency_Key="k1")
    again = mine.post("experiments", dict(reversed(asked.items())), Idempotency_Key="k1")
    assert again["Idempotency-Replayed"] == "true"


def test_the_same_key_with_another_body_is_refused(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    mine.post("experiments", _asked(world), Idempotency_Key="k1")
    answer = mine.post("experiments", _asked(world, name="Other"), Idempotency_Key="k1")
    assert answer.status_code == 409
    assert answer.json()["code"] == "idempotency_key_reused"
    assert Workload.objects.count() == 1


def test_the_same_key_at_another_address_is_refused(world: World, experiment: Workload, call: Call) -> None:
    mine = call(world.member)
    assert mine.post(f"experiments/{experiment.id}/start", {}, Idempotency_Key="k1").status_code == 202
    assert mine.post(f"experiments/{experiment.id}/stop", {}, Idempotency_Key="k1").status_code == 409


def test_a_key_belongs_to_who_used_it(world: World, site: FakeCluster, call: Call) -> None:
    one = call(world.member).post("experiments", _asked(world), Idempotency_Key="k1")
    other = call(world.colleague).post("experiments", _asked(world), Idempotency_Key="k1")
    assert one.json()["id"] != other.json()["id"]


def test_another_token_of_the_same_person_does_not_read_the_kept_reply(
    world: World, site: FakeCluster, call: Call
) -> None:
    member(world.other_lab, world.member.user)  # type: ignore[arg-type]
    call(world.member).post("experiments", _asked(world), Idempotency_Key="k1")
    elsewhere = call(world.member, tenant_id=world.other_lab.id)
    assert elsewhere.post("experiments", _asked(world), Idempotency_Key="k1").status_code == 422


def test_a_refusal_is_not_kept_so_the_key_may_be_tried_again(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    assert mine.post("experiments", _asked(world, flavour="none"), Idempotency_Key="k1").status_code == 422
    assert KeptReply.objects.count() == 0
    assert mine.post("experiments", _asked(world), Idempotency_Key="k1").status_code == 202


def test_a_fault_in_the_middle_keeps_neither_the_change_nor_the_reply(
    world: World, site: FakeCluster, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("after the change, before the reply")

    monkeypatch.setattr("apps.api.idempotency._keep", broken)
    assert call(world.member).post("experiments", _asked(world), Idempotency_Key="k1").status_code == 500
    assert (KeptReply.objects.count(), Workload.objects.count()) == (0, 0)


@pytest.mark.parametrize("refused", [False, True], ids=["it could be done twice", "the first took the room"])
def test_a_duplicate_that_came_while_the_first_was_at_work_comes_to_nothing(
    world: World, site: FakeCluster, call: Call, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    mine = call(world.member)
    first = mine.post("experiments", _asked(world), Idempotency_Key="k1")
    real, looks = idempotency._find, iter([None])  # at its first look the reply was not there yet
    monkeypatch.setattr(idempotency, "_find", lambda request, key: next(looks, real(request, key)))
    if refused:

        def full(_wish: Any) -> Any:
            raise Conflict("no room", code="queue_full")

        monkeypatch.setattr("apps.experiments.services._begin", full)
    again = mine.post("experiments", _asked(world), Idempotency_Key="k1")
    assert (again.status_code, again.json()) == (202, first.json())
    assert again["Idempotency-Replayed"] == "true"
    assert Workload.objects.count() == 1


def test_a_refusal_of_something_else_is_told(
    world: World, site: FakeCluster, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_wish: Any) -> Any:
        raise Conflict("no room", code="queue_full")

    monkeypatch.setattr("apps.experiments.services._begin", full)
    assert call(world.member).post("experiments", _asked(world), Idempotency_Key="k1").status_code == 409


def test_extending_twice_with_one_key_extends_once(world: World, experiment: Workload, call: Call) -> None:
    mine = call(world.member)
    for _ in range(2):
        answer = mine.post(f"experiments/{experiment.id}/extend", {"seconds": 60}, Idempotency_Key="k1")
        assert answer.json()["time_limit_seconds"] == 3660
    experiment.refresh_from_db()
    assert experiment.time_limit_seconds == 3660


def test_a_dry_run_keeps_nothing(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    mine.post("experiments?dry_run=true", _asked(world), Idempotency_Key="k1")
    assert mine.post("experiments", _asked(world), Idempotency_Key="k1").status_code == 202


def test_the_secret_of_a_token_is_not_kept(world: World, call: Call) -> None:
    mine = call(world.member)
    asked = {"name": "script", "scopes": ["read"]}
    first = mine.post("tokens", asked, Idempotency_Key="k1").json()
    again = mine.post("tokens", asked, Idempotency_Key="k1").json()
    assert first["secret"].startswith("tsr_")
    assert again == first | {"secret": None}
    assert first["secret"] not in str(KeptReply.objects.values_list("body", "headers"))
    assert ApiToken.objects.filter(name="script").count() == 1


def test_after_a_day_a_key_is_forgotten(world: World, site: FakeCluster, stopped_clock: Clock, call: Call) -> None:
    mine = call(world.member)
    ApiToken.objects.update(expiry=None)
    mine.post("experiments", _asked(world), Idempotency_Key="k1")
    stopped_clock.tick(seconds=(KEPT_FOR - timedelta(seconds=1)).total_seconds())
    assert mine.post("experiments", _asked(world), Idempotency_Key="k1")["Idempotency-Replayed"] == "true"
    stopped_clock.tick(seconds=1)
    assert "Idempotency-Replayed" not in mine.post("experiments", _asked(world), Idempotency_Key="k1")
    assert KeptReply.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "sch\xf6n"])
def test_a_key_that_is_no_key_is_refused(world: World, site: FakeCluster, call: Call, key: str) -> None:
    answer = call(world.member).post("experiments", _asked(world), Idempotency_Key=key)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"
    assert Workload.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_eight_clicks_at_once_make_one_experiment() -> None:
    """Real transactions in real threads: the duplicates wait for the first and get its reply."""
    world = make_world()
    flavour()
    token = token_for(world.member)

    def click(_n: int) -> tuple[int, str]:
        try:
            answer: Any = Caller(token).post("experiments", _asked(world), Idempotency_Key="double-click")
            return answer.status_code, answer.json()["id"]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(click, range(8)))
    assert {status for status, _id in answers} == {202}
    assert len({made for _status, made in answers}) == 1
    assert Workload.objects.count() == 1
