"""Sessions and workloads of the usual people."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.core.ids import new_id
from apps.core.slugs import slug_for
from apps.gateway import addresses, services
from apps.workloads.models import Phase, Workload
from tests.factories import World

MakeWorkload = Callable[..., Workload]


@pytest.fixture
def make_workload(world: World) -> MakeWorkload:
    def make(owner: Actor = world.member, phase: str = Phase.READY, **fields: Any) -> Workload:
        made = new_id()
        defaults = {"kind": "experiment", "name": "Try 试", "tenant": world.lab, "environment": world.environment}
        assert owner.user is not None
        return Workload.objects.create(
            id=made, slug=slug_for("try", made), owner=owner.user, phase=phase, **{**defaults, **fields}
        )

    return make


def session_of(user: User) -> Any:
    """A signed-in session, as the portal makes it."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return store


def ticket(actor: Actor, workload: Workload, session_key: str = "session", page: str = "/lab") -> str:
    assert isinstance(actor.user, User)
    return services.issue_ticket(actor=actor, user=actor.user, workload=workload, session_key=session_key, page=page)


def let_in(actor: Actor, workload: Workload) -> tuple[str, Any]:
    """The value of the cookie, and the session behind it."""
    assert isinstance(actor.user, User)
    session = session_of(actor.user)
    entry = services.redeem_ticket(slug=workload.slug, ticket=ticket(actor, workload, session.session_key))
    assert entry is not None
    assert entry.page == addresses.DEFAULT_PAGE
    return entry.secret, session
