"""Makes and changes people and tokens."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.models import ApiToken, PlatformRole, User
from apps.accounts.scopes import SCOPES
from apps.audit import services as audit
from apps.audit.context import Actor
from apps.core import clock
from apps.core.errors import InvalidInput, NotFound, NotPermitted

MAX_TOKEN_LIFE = timedelta(days=366)


@transaction.atomic
def create_user(
    *,
    actor: Actor,
    username: str,
    password: str | None = None,
    display_name: str = "",
    email: str = "",
    platform_role: str = PlatformRole.NONE,
) -> User:
    """A person; without a password (None) nobody can sign in as it. Raises InvalidInput with the fields that are wrong."""
    _require_operator(actor)
    user = User(username=username.strip(), display_name=display_name.strip(), email=email, platform_role=platform_role)
    if password is None:
        user.set_unusable_password()
    else:
        _check_password(password, user)
        user.set_password(password)
    try:
        user.full_clean()
    except ValidationError as error:
        raise InvalidInput(
            _("This person cannot be added."), fields={k: v[0] for k, v in error.message_dict.items()}
        ) from error
    user.save(force_insert=True)
    audit.record(
        actor=actor,
        verb="user.create",
        target=user,
        after={"username": user.username, "platform_role": user.platform_role},
    )
    return user


@transaction.atomic
def set_password(*, actor: Actor, user: User, password: str) -> User:
    """One's own, or anybody's as an operator. Ends the person's other sessions (Django ties sessions to the password)."""
    if not (actor.is_operator or (actor.user_id == user.id and actor.scopes is None)):
        raise NotPermitted(_("Only operators change other people's passwords."))
    _check_password(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit.record(actor=actor, verb="user.set_password", target=user)
    return user


@transaction.atomic
def set_preferences(
    *, actor: Actor, user: User, language: str | None = None, theme: str | None = None, display_name: str | None = None
) -> User:
    """How the pages look to oneself. None leaves a thing as it is."""
    if actor.user_id != user.id:
        raise NotPermitted(_("Everybody chooses for themselves."))
    changes = {"language": language, "theme": theme, "display_name": display_name}
    for field, value in changes.items():
        if value is not None:
            setattr(user, field, value.strip())
    try:
        user.clean_fields()
    except ValidationError as error:
        raise InvalidInput(
            _("This cannot be chosen."), fields={k: v[0] for k, v in error.message_dict.items()}
        ) from error
    user.save(update_fields=list(changes))
    return user


@transaction.atomic
def set_active(*, actor: Actor, user: User, active: bool) -> User:
    """Lock a person out, or let them in again. Running workloads are not touched."""
    _require_operator(actor)
    if user.is_active != active:
        user.is_active = active
        user.save(update_fields=["is_active"])
        audit.record(actor=actor, verb="user.activate" if active else "user.deactivate", target=user)
    return user


@transaction.atomic
def create_token(
    *,
    actor: Actor,
    user: User,
    name: str,
    scopes: Collection[str],
    tenant_id: UUID | None = None,
    expires_in: timedelta,
) -> tuple[ApiToken, str]:
    """A token and its secret, which is shown this once. A token can only make tokens that may no more than itself."""
    if actor.user_id != user.id and not actor.is_system:
        raise NotPermitted(_("Everybody makes their own tokens."))
    fields = _token_problems(name, scopes, expires_in)
    if fields:
        raise InvalidInput(_("This token cannot be made."), fields=fields)
    if actor.scopes is not None and not (set(scopes) <= actor.scopes and actor.tenant_id in (None, tenant_id)):
        raise NotPermitted(_("A token cannot make a token that may more than itself."))
    token, secret = ApiToken.objects.create(
        user=user, expiry=expires_in, name=name.strip(), scopes=sorted(set(scopes)), tenant_id=tenant_id
    )
    audit.record(actor=actor, verb="token.create", target=token, after={"name": token.name, "scopes": token.scopes})
    return token, secret


def _token_problems(name: str, scopes: Collection[str], expires_in: timedelta) -> dict[str, str]:
    problems: dict[str, str] = {}
    if not 1 <= len(name.strip()) <= 100:
        problems["name"] = _("Give it a name of 1 to 100 characters, so that you know it again.")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        problems["scopes"] = _("Unknown: %(scopes)s. Known: %(known)s.") % {
            "scopes": ", ".join(unknown),
            "known": ", ".join(SCOPES),
        }
    elif not scopes:
        problems["scopes"] = _("Choose what it may do.")
    if not timedelta(0) < expires_in <= MAX_TOKEN_LIFE:
        problems["expires_in"] = _("Choose a life of at most %(days)d days.") % {"days": MAX_TOKEN_LIFE.days}
    return problems


@transaction.atomic
def revoke_token(*, actor: Actor, token: ApiToken) -> None:
    if actor.user_id != token.user_id and not actor.is_operator:
        raise NotFound(_("There is no such token."))
    audit.record(actor=actor, verb="token.revoke", target=token, before={"name": token.name, "scopes": token.scopes})
    token.delete()


def forget_expired() -> None:
    """Sessions and tokens whose time is over. A token is kept a week longer, so that its owner sees what happened to it."""
    Session.objects.filter(expire_date__lt=clock.now()).delete()
    ApiToken.objects.filter(expiry__lt=clock.now() - timedelta(days=7)).delete()


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(
            _("This password is not good enough."), fields={"password": " ".join(error.messages)}
        ) from error


def _require_operator(actor: Actor) -> None:
    if not actor.is_operator:
        raise NotPermitted(_("Only operators add and change people."))
