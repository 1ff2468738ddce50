from datetime import timedelta

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, User
from apps.api.throttling import LIMIT, WINDOW_SECONDS
from apps.core import clock
from tests.conftest import Clock
from tests.factories import World
from tests.unit.api.conftest import Call, Caller


def test_a_token_is_kept_as_a_hash_only(world: World, call: Call) -> None:
    mine = call(world.member)
    row = ApiToken.objects.get()
    assert mine.token.startswith("tsr_")
    assert mine.token[15:] not in "".join(str(value) for value in vars(row).values())


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer tsr_wrong",
        "Bearer a b",
        "bearer tsr_wrong",
        "Bearer \xe4\xf6",
        "Bearer " + "x" * 5000,
    ],
)
def test_a_wrong_token_is_answered_with_401(db: None, header: str) -> None:
    answer = Client().get("/api/v1/me", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "not_authenticated"


@pytest.mark.parametrize("header", ["Token tsr_wrong", "Basic eDp5", "nonsense"])
def test_another_way_of_signing_in_is_answered_with_401(db: None, header: str) -> None:
    assert Client().get("/api/v1/me", headers={"Authorization": header}).status_code == 401


def test_an_expired_token_says_so(world: World, stopped_clock: Clock, call: Call) -> None:
    mine = call(world.member)
    ApiToken.objects.update(expiry=clock.now() + timedelta(seconds=10))
    assert mine.get("me").status_code == 200
    stopped_clock.tick(seconds=10)
    answer = mine.get("me")
    assert answer.status_code == 401
    assert "expired" in answer.json()["detail"]


def test_a_revoked_token_ends_at_once(world: World, call: Call) -> None:
    mine, other = call(world.member), call(world.member)
    newest = mine.get("tokens").json()["items"][0]["id"]
    assert mine.delete(f"tokens/{newest}").status_code == 204
    assert sorted([mine.get("me").status_code, other.get("me").status_code]) == [200, 401]


def test_a_person_who_is_locked_out_has_no_token_either(world: World, call: Call) -> None:
    mine = call(world.member)
    User.objects.filter(username="member").update(is_active=False)
    assert mine.get("me").status_code == 401


def test_the_last_use_is_written_once_a_minute(world: World, stopped_clock: Clock, call: Call) -> None:
    mine = call(world.member)
    mine.get("me")
    first = ApiToken.objects.get().last_used_at
    stopped_clock.tick(seconds=59)
    mine.get("me")
    assert ApiToken.objects.get().last_used_at == first
    stopped_clock.tick(seconds=1)
    mine.get("me")
    assert ApiToken.objects.get().last_used_at == clock.now()


def test_many_wrong_tokens_are_braked_and_a_right_one_is_not(world: World, call: Call) -> None:
    mine = call(world.member)
    wrong = Caller("tsr_wrong")
    statuses = [wrong.get("me").status_code for _ in range(LIMIT + 1)]
    assert statuses == [401] * LIMIT + [429]
    answer = wrong.get("me")
    assert answer["Retry-After"] == str(WINDOW_SECONDS)
    assert answer.json()["code"] == "too_many_requests"
    assert mine.get("me").status_code == 200


def test_the_brake_is_of_one_address(db: None) -> None:
    wrong = Caller("tsr_wrong")
    for _ in range(LIMIT + 1):
        wrong.get("me")
    elsewhere = wrong.client.get("/api/v1/me", headers={"Authorization": "Bearer tsr_wrong"}, REMOTE_ADDR="192.0.2.7")
    assert elsewhere.status_code == 401


def test_a_session_of_the_pages_reads(world: World, client: Client) -> None:
    client.force_login(User.objects.get(username="member"))
    body = client.get("/api/v1/me").json()
    assert body["username"] == "member"
    assert body["token"] is None


def test_a_session_changes_nothing_without_the_csrf_token(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.get(username="member"))
    answer = browser.post("/api/v1/tokens", '{"name": "x", "scopes": ["read"]}', content_type="application/json")
    assert answer.status_code == 403
    assert answer.json()["code"] == "csrf_failed"
    token = "t" * 32
    browser.cookies["tessera_csrf"] = token
    answer = browser.post(
        "/api/v1/tokens",
        '{"name": "x", "scopes": ["read"]}',
        content_type="application/json",
        headers={"X-CSRFToken": token},
    )
    assert answer.status_code == 201


def test_a_bad_token_beside_a_session_is_not_overlooked(world: World, client: Client) -> None:
    client.force_login(User.objects.get(username="member"))
    assert client.get("/api/v1/me", headers={"Authorization": "Bearer tsr_wrong"}).status_code == 401


def test_answers_are_not_cached_on_the_way(world: World, call: Call) -> None:
    assert call(world.member).get("me")["Cache-Control"] == "private, no-store"
