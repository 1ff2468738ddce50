"""The actor of an HTTP request. The one place where a session or a token becomes an `Actor`."""

from typing import Any

import structlog
from django.http import HttpRequest

from apps.accounts.models import ApiToken, User
from apps.audit.context import Actor


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in person, by session or token (`request.auth`, as the API's authentication leaves it). Anonymous is a TypeError."""
    user = request.user
    if not isinstance(user, User):
        raise TypeError("an anonymous request has no actor")
    token = getattr(request, "auth", None)
    return actor_for(user, token if isinstance(token, ApiToken) else None, request_id=_request_id(), ip=_ip(request))


def actor_for(user: User, token: ApiToken | None = None, *, request_id: str = "", ip: str | None = None) -> Actor:
    if token is None:
        return Actor(user=user, label=str(user), request_id=request_id, ip=ip)
    return Actor(
        user=user,
        label=f"{user} ({token.name})",
        token_id=str(token.id),
        scopes=frozenset(token.scopes),
        tenant_id=token.tenant_id,
        request_id=request_id,
        ip=ip,
    )


def _request_id() -> str:
    """As django-structlog bound it for this request."""
    bound: dict[str, Any] = structlog.contextvars.get_contextvars()
    return str(bound.get("request_id", ""))


def _ip(request: HttpRequest) -> str | None:
    return request.META.get("REMOTE_ADDR") or None
