"""Callers of the API: each person of the `world` with a token, over Django's test client."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from apps.accounts import services as accounts
from apps.accounts.models import User
from apps.accounts.scopes import SCOPES
from apps.audit.context import Actor
from apps.cluster import services as cluster
from apps.experiments.services import request_experiment
from apps.workloads.models import Workload
from tests.factories import SLICE, World, flavour
from tests.fakes.cluster import FakeCluster


@dataclass
class Caller:
    """Sends JSON with a bearer token; answers are Django's responses, `json()` their bodies."""

    token: str = ""
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named["Authorization"] = f"Bearer {self.token}"
        data = "" if body is None else json.dumps(body)
        answer: HttpResponse = self.client.generic(  # type: ignore[assignment]
            method, f"/api/v1/{path}", data, content_type="application/json", headers=named
        )
        return answer

    def get(self, path: str, **headers: str) -> Any:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.send("DELETE", path, **headers)


class Call(Protocol):
    """`call(actor)` has all scopes; `call(actor, "read", tenant_id=...)` less."""

    def __call__(self, actor: Actor, *scopes: str, tenant_id: UUID | None = None) -> Caller: ...


def token_for(actor: Actor, *scopes: str, tenant_id: UUID | None = None) -> str:
    assert isinstance(actor.user, User)
    _row, secret = accounts.create_token(
        actor=actor,
        user=actor.user,
        name="test",
        scopes=scopes or SCOPES,
        tenant_id=tenant_id,
        expires_in=timedelta(days=1),
    )
    return secret


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    """Wrong tokens are counted in the cache."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def call() -> Call:
    def caller(actor: Actor, *scopes: str, tenant_id: UUID | None = None) -> Caller:
        return Caller(token_for(actor, *scopes, tenant_id=tenant_id))

    return caller


@pytest.fixture
def site(world: World, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A place to run things in, mirrored as the controller would; the web process reads logs from it. And one flavour."""
    made = FakeCluster()
    monkeypatch.setattr("apps.api.views.logs.reader", lambda: made)
    monkeypatch.setattr("apps.api.following.reader", lambda: made)
    flavour()
    cluster.mirror_inventory(async_to_sync(made.inventory)())
    return made


@pytest.fixture
def experiment(world: World, site: FakeCluster) -> Workload:
    """The member's, with a time limit; admitted, and not yet seen by any controller."""
    return request_experiment(
        actor=world.member,
        tenant=world.lab,
        name="First steps",
        environment=world.environment,
        resources=SLICE,
        time_limit_seconds=3600,
    )
