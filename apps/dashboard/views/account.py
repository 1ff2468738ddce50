"""One's own account: name, language, theme; tokens for scripts."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import selectors, services
from apps.accounts.models import User
from apps.accounts.scopes import SCOPES
from apps.audit.context import Actor
from apps.core.errors import InvalidInput, NotFound
from apps.dashboard.forms.people import PreferencesForm, TokenForm
from apps.dashboard.views.access import page
from apps.tenants import selectors as tenants


def _person(actor: Actor) -> User:
    if not isinstance(actor.user, User):
        raise NotFound(_("There is no such account."))
    return actor.user


def _page(request: HttpRequest, actor: Actor, status: int = 200, **more: Any) -> HttpResponse:
    user = _person(actor)
    names = {tenant.id: tenant.name for tenant in tenants.visible_to(actor)}
    known = {key: str(label) for key, label in SCOPES.items()}
    tokens = [
        (
            token,
            [known.get(scope, scope) for scope in token.scopes],
            names.get(token.tenant_id, "") if token.tenant_id else "",
        )
        for token in selectors.tokens_of(actor)
    ]
    first = {"display_name": user.display_name, "language": user.language, "theme": user.theme}
    context = {
        "tokens": tokens,
        "token_form": TokenForm(actor=actor),
        "preferences": PreferencesForm(initial=first),
        **more,
    }
    return render(request, "account/page.html", context, status=status)


@require_GET
@page
def account(request: HttpRequest, actor: Actor) -> HttpResponse:
    return _page(request, actor)


@require_POST
@page
def preferences(request: HttpRequest, actor: Actor) -> HttpResponse:
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _page(request, actor, status=422, preferences=form)
    services.set_preferences(actor=actor, user=_person(actor), **form.cleaned_data)
    response = redirect("account")
    if form.cleaned_data["language"]:
        response.set_cookie("django_language", form.cleaned_data["language"], max_age=365 * 24 * 3600, samesite="Lax")
    else:
        response.delete_cookie("django_language")
    return response


@require_POST
@page
def create_token(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Answers with the page itself: the secret is shown this once and is kept nowhere, not even in the session."""
    form = TokenForm(request.POST, actor=actor)
    if not form.is_valid():
        return _page(request, actor, status=422, token_form=form)
    cleaned = form.cleaned_data
    try:
        token, secret = services.create_token(
            actor=actor,
            user=_person(actor),
            name=cleaned["name"],
            scopes=cleaned["scopes"],
            tenant_id=cleaned["tenant"].id if cleaned["tenant"] else None,
            expires_in=timedelta(days=cleaned["days"]),
        )
    except InvalidInput as error:
        form.add_error(None, " ".join(str(sentence) for sentence in (error.fields.values() or [error.message])))
        return _page(request, actor, status=422, token_form=form)
    return _page(request, actor, new_token=token, secret=secret)


@require_POST
@page
def revoke_token(request: HttpRequest, actor: Actor, token_id: UUID) -> HttpResponse:
    token = selectors.get_token(actor, token_id)
    name = token.name
    services.revoke_token(actor=actor, token=token)
    messages.success(request, _("“%(name)s” no longer works.") % {"name": name})
    return redirect("account")
