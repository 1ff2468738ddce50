from datetime import timedelta

import pytest
from django.contrib.auth.hashers import get_hasher
from django.contrib.sessions.models import Session
from django.test import RequestFactory
from knox.auth import TokenAuthentication

from apps.accounts import selectors, services
from apps.accounts.actors import actor_for, actor_of
from apps.accounts.adapters import ClosedAccountAdapter
from apps.accounts.models import ApiToken, User
from apps.audit.context import Actor
from apps.audit.models import Event
from apps.core.errors import InvalidInput, NotFound, NotPermitted
from portal import settings as portal_settings
from tests.conftest import Clock
from tests.factories import World

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
GOOD = "correct horse battery"


def owned(actor: Actor) -> User:
    assert actor.user is not None
    return actor.user


def token(actor: Actor, *scopes: str, **fields: object) -> tuple[ApiToken, str]:
    given = {"name": "laptop", "scopes": scopes or ("read",), "expires_in": DAY, **fields}
    return services.create_token(actor=actor, user=owned(actor), **given)  # type: ignore[arg-type]


def test_nobody_signs_up_by_themselves() -> None:
    assert not ClosedAccountAdapter().is_open_for_signup(RequestFactory().get("/"))


def test_passwords_are_hashed_with_argon2() -> None:
    assert portal_settings.PASSWORD_HASHERS == ["django.contrib.auth.hashers.Argon2PasswordHasher"]
    assert get_hasher("default").verify(GOOD, get_hasher("default").encode(GOOD, "saltsalt"))


def test_only_operators_add_people(world: World) -> None:
    made = services.create_user(actor=world.operator, username="neu", password=GOOD, display_name="新人")
    assert made.check_password(GOOD)
    assert str(made) == "新人"
    with pytest.raises(NotPermitted):
        services.create_user(actor=world.manager, username="other", password=GOOD)


@pytest.mark.parametrize(("username", "password"), [("neu", "short"), ("", GOOD), ("member", GOOD), ("a b", GOOD)])
def test_bad_names_and_passwords_are_refused_by_field(world: World, username: str, password: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        services.create_user(actor=world.operator, username=username, password=password)
    assert set(refused.value.fields) <= {"username", "password"}
    assert refused.value.fields


def test_people_change_their_own_password_and_operators_anybodys(world: World) -> None:
    services.set_password(actor=world.member, user=owned(world.member), password=GOOD)
    services.set_password(actor=world.operator, user=owned(world.member), password=GOOD + "2")
    with pytest.raises(NotPermitted):
        services.set_password(actor=world.manager, user=owned(world.member), password=GOOD)


def test_a_token_cannot_change_a_password(world: World) -> None:
    made, _secret = token(world.member, "read", "tokens:write")
    with pytest.raises(NotPermitted):
        services.set_password(actor=actor_for(owned(world.member), made), user=owned(world.member), password=GOOD)


def test_a_tokens_secret_is_shown_once_and_only_its_hash_is_kept(world: World) -> None:
    made, secret = token(world.member)
    assert secret.startswith("tsr_")
    assert secret not in str(made.__dict__)
    user, found = TokenAuthentication().authenticate_credentials(secret.encode())
    assert (user, found) == (world.member.user, made)
    event = Event.objects.get(verb="token.create")
    assert event.target_label == "laptop"
    assert made.digest not in str(event.__dict__)


def test_a_token_makes_no_token_that_may_more_than_itself(world: World) -> None:
    made, _secret = token(world.member, "read", "tokens:write", tenant_id=world.lab.id)
    script = actor_for(owned(world.member), made)
    token(script, "read", tenant_id=world.lab.id)
    with pytest.raises(NotPermitted):
        token(script, "read", "experiments:write", tenant_id=world.lab.id)
    with pytest.raises(NotPermitted):
        token(script, "read")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [({"name": " "}, "name"), ({"scopes": ()}, "scopes"), ({"scopes": ("root",)}, "scopes"), ({"expires_in": 500 * DAY}, "expires_in"),
     ({"expires_in": -DAY}, "expires_in")],
)  # fmt: skip
def test_a_senseless_token_is_refused_by_field(world: World, fields: dict[str, object], wrong: str) -> None:
    given = {"name": "x", "scopes": ("read",), "expires_in": DAY, **fields}
    with pytest.raises(InvalidInput) as refused:
        services.create_token(actor=world.member, user=owned(world.member), **given)  # type: ignore[arg-type]
    assert set(refused.value.fields) == {wrong}


def test_nobody_sees_or_revokes_the_tokens_of_others(world: World) -> None:
    made, _secret = token(world.member)
    assert list(selectors.tokens_of(world.member)) == [made]
    for other in (world.colleague, world.manager, world.outsider):
        assert not selectors.tokens_of(other)
        with pytest.raises(NotFound):
            selectors.get_token(other, made.id)
        with pytest.raises(NotFound):
            services.revoke_token(actor=other, token=made)
    services.revoke_token(actor=world.operator, token=made)
    assert not ApiToken.objects.exists()


def test_only_those_who_see_everything_see_all_people(world: World) -> None:
    assert selectors.users(world.auditor).count() == User.objects.count()
    assert list(selectors.users(world.member)) == [world.member.user]


def test_the_actor_of_a_request_carries_token_address_and_scopes(world: World) -> None:
    made, _secret = token(world.member, tenant_id=world.lab.id)
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.9")
    request.user = owned(world.member)
    assert actor_of(request).scopes is None
    request.auth = made  # type: ignore[attr-defined]
    actor = actor_of(request)
    assert (actor.ip, actor.scopes, actor.tenant_id, actor.token_id) == (
        "10.0.0.9",
        frozenset({"read"}),
        world.lab.id,
        str(made.id),
    )
    assert "laptop" in actor.label


def test_a_locked_out_operator_is_no_operator(world: World) -> None:
    assert world.operator.is_operator
    services.set_active(actor=world.operator, user=owned(world.operator), active=False)
    assert not world.operator.is_operator
    assert not world.operator.sees_everything


def test_an_operators_token_is_one_of_an_operator_only_with_the_scope_for_it(world: World) -> None:
    plain, _ = token(world.operator, "read")
    platform, _ = token(world.operator, "read", "platform")
    narrowed, _ = token(world.operator, "platform", tenant_id=world.lab.id)
    who = owned(world.operator)
    assert [actor_for(who, t).is_operator for t in (plain, platform, narrowed)] == [False, True, False]


def test_what_has_expired_is_forgotten_and_what_lives_is_kept(world: World, stopped_clock: Clock) -> None:
    live, _secret = token(world.member)
    old, _secret = token(world.member)
    ApiToken.objects.filter(pk=live.pk).update(expiry=stopped_clock.now - DAY)  # its owner may still want to see it
    ApiToken.objects.filter(pk=old.pk).update(expiry=stopped_clock.now - 8 * DAY)
    for key, days in (("dead", -1), ("alive", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=stopped_clock.now + days * DAY)
    services.forget_expired()
    assert list(ApiToken.objects.all()) == [live]
    assert [session.session_key for session in Session.objects.all()] == ["alive"]
