"""Who asks: a bearer token of `accounts`, or the browser's session.

Finds the user and the token; what they may do is decided elsewhere.
"""

from datetime import timedelta

from django.utils.translation import gettext_lazy as _
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User
from apps.api.throttling import FailedTokens, TooManyWrongTokens
from apps.core import clock
from apps.core.errors import NotPermitted

LAST_USE_PRECISION = timedelta(minutes=1)  # one write a minute at most, however busy the token is


class ScopedTokenAuthentication(TokenAuthentication):  # type: ignore[misc]  # knox has no types
    """knox's header and hash. Found by the hash, its primary key, so no comparison leaks the time that it takes."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        try:
            found: tuple[User, ApiToken] | None = super().authenticate(request)
        except AuthenticationFailed:
            if FailedTokens(request.META.get("REMOTE_ADDR", "")).count_one():
                raise TooManyWrongTokens from None
            raise
        return found

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        try:
            digest = hash_token(token.decode("ascii"))
        except UnicodeDecodeError:
            raise AuthenticationFailed(_("This token is not valid.")) from None
        found = ApiToken.objects.select_related("user").filter(digest=digest).first()
        if found is None or not found.user.is_active:
            raise AuthenticationFailed(_("This token is not valid. It may have been revoked."))
        now = clock.now()
        if found.expiry is not None and found.expiry <= now:
            raise AuthenticationFailed(_("This token has expired. Make a new one."))
        if found.last_used_at is None or now - found.last_used_at >= LAST_USE_PRECISION:
            ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
        return found.user, found


class BrowserSession(SessionAuthentication):
    """The page's own session. Changes need Django's CSRF token in X-CSRFToken, as forms do."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as refusal:
            raise NotPermitted(
                _("This change lacks the proof that it comes from a page of Tessera."),
                code="csrf_failed",
                hint=_(
                    "Send the cookie tessera_csrf in the header X-CSRFToken too, or use a token instead of the session."
                ),
                evidence={"refused": str(refusal.detail)},
            ) from None
