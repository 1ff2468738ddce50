"""Whether the person behind a socket is still signed in. A socket outlives many requests, so it must ask by itself."""

from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from apps.accounts.models import User


def signed_in(session_key: str | None) -> User | None:
    """The user of a session as it is now in the store: None after signing out, a changed password, or a locked account."""
    if not session_key:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast(HttpRequest, SimpleNamespace(session=store)))
    return user if isinstance(user, User) and user.is_active else None


def session_key_of(scope: Mapping[str, Any]) -> str | None:
    session = scope.get("session")
    return getattr(session, "session_key", None)
