"""Scopes of tokens. What a person may do to a tenant or a workload is decided by the services; this only narrows."""

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from apps.accounts.models import ApiToken
from apps.core.errors import NotPermitted

if TYPE_CHECKING:
    from rest_framework.views import APIView  # imports this module, by way of the settings


def scope_for(view: Any, method: str) -> str:
    """The scope that `method` on `view` needs. A view that changes something names `write_scope`."""
    if method in SAFE_METHODS:
        return str(getattr(view, "read_scope", "read"))
    return str(view.write_scope)


class HasScope(BasePermission):
    """Signed in, and with a token: it has the scope. A browser's session is the person, with all scopes."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if not request.user.is_authenticated:
            return False  # REST framework answers 401
        if not isinstance(request.auth, ApiToken) or (request.method or "").lower() not in view.http_method_names:
            return True
        if not hasattr(view, (request.method or "").lower()):
            return True  # 405 follows
        needed = scope_for(view, request.method or "")
        if needed in request.auth.scopes:
            return True
        raise NotPermitted(
            _("This token lacks the scope %(scope)s.") % {"scope": needed},
            code="missing_scope",
            hint=_("Make a token with that scope on your account page."),
            evidence={"needed": needed, "held": sorted(request.auth.scopes)},
        )
