"""Who may see a page at all; the selectors decide what is on it."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from apps.accounts.actors import actor_of
from apps.audit.context import Actor
from apps.core.errors import NotFound

P = ParamSpec("P")


def page(
    view: Callable[Concatenate[HttpRequest, Actor, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """A page of a signed-in person: the view is given the actor, and nothing is kept by caches."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        return view(request, actor_of(request), *args, **kwargs)

    return login_required(never_cache(wrapped))


def operators_only(actor: Actor) -> None:
    """To everybody else there is no such page."""
    if not actor.is_operator:
        raise NotFound(_("There is no such page, or it is not yours to see."))
