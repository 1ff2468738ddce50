"""Reads people and tokens."""

from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from apps.accounts.models import ApiToken, User
from apps.audit.context import Actor
from apps.core import clock
from apps.core.errors import NotFound


def tokens_of(actor: Actor) -> QuerySet[ApiToken]:
    """The actor's own tokens that still work, newest first."""
    working = Q(expiry=None) | Q(expiry__gt=clock.now())
    mine: QuerySet[ApiToken] = ApiToken.objects.filter(working, user=actor.user).order_by("-created")
    return mine


def get_token(actor: Actor, token_id: UUID) -> ApiToken:
    """One's own token, or anybody's for operators. Raises NotFound."""
    found = ApiToken.objects.filter(id=token_id)
    if not actor.is_operator:
        found = found.filter(user=actor.user)
    token: ApiToken | None = found.first()
    if token is None:
        raise NotFound(_("There is no such token."))
    return token


def users(actor: Actor) -> QuerySet[User]:
    """Everybody, for those who see everything; else oneself only."""
    everybody = User.objects.order_by("username")
    return everybody if actor.sees_everything else everybody.filter(id__in=[actor.user_id] if actor.user_id else [])


def find_user(username: str) -> User | None:
    """An active person by exact user name: whoever manages members must know whom they add."""
    return User.objects.filter(username=username.strip(), is_active=True).first()
