"""Home, search, and where live data is polled when the socket fails."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import services as accounts
from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.core import clock
from apps.core.errors import NotFound
from apps.dashboard.live import parts
from apps.dashboard.live.frames import Cursor
from apps.dashboard.live.reading import read_all
from apps.dashboard.live.topics import Topic, parse
from apps.dashboard.navigation import navigation_of
from apps.dashboard.person import language_of
from apps.dashboard.views.access import page
from apps.dashboard.workload_views import views_of
from apps.tenants import selectors as tenants
from apps.workloads import selectors as workloads

_MAX_TOPICS = 16
_FOUND = 20  # of each sort


@require_GET
@page
def home(request: HttpRequest, actor: Actor) -> HttpResponse:
    tenant = navigation_of(request).tenant
    context = {"parts": parts.home_parts(actor, tenant), "topic": f"home:{tenant.slug if tenant else ''}"}
    return render(request, "home.html", context)


@require_GET
@page
def search(request: HttpRequest, actor: Actor) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:100]
    context: dict[str, Any] = {"query": query}
    if query:
        context |= {
            "rows": views_of(actor, workloads.visible_to(actor).filter(name__icontains=query)[:_FOUND]),
            "tenants": tenants.visible_to(actor).filter(name__icontains=query)[:_FOUND],
            "gpus": cluster.gpus().filter(model__icontains=query)[:_FOUND],
        }
    return render(request, "search.html", context)


@require_GET
@never_cache
def live_poll(request: HttpRequest) -> JsonResponse:
    """What the socket would have sent: `topics` is JSON, topic -> cursor."""
    if not isinstance(request.user, User):
        return JsonResponse({"detail": _("Sign in again.")}, status=401)
    try:
        wanted = json.loads(request.GET.get("topics", "{}"))
    except ValueError:
        wanted = None
    if not isinstance(wanted, dict) or len(wanted) > _MAX_TOPICS:
        return JsonResponse({"detail": "topics: an object of topic and cursor is needed"}, status=400)
    actor = actor_of(request)
    topics: dict[str, tuple[Topic, Cursor]] = {}
    gone = []
    for name, cursor in wanted.items():
        try:
            topics[name] = (parse(name, actor), Cursor.of(cursor))
        except NotFound:
            gone.append(name)
    read = read_all(actor, topics)
    frames = [frame.as_json() for frame in read.frames]
    return JsonResponse({"frames": frames, "gone": gone + read.gone, "now": clock.now().timestamp()})


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Also before signing in: the choice is kept in a cookie, and in the account where there is one."""
    chosen = language_of(None, request.POST.get("language", ""))
    if isinstance(request.user, User):
        accounts.set_preferences(actor=actor_of(request), user=request.user, language=chosen)
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    response = redirect(back if safe else "/")
    response.set_cookie("django_language", chosen, max_age=365 * 24 * 3600, samesite="Lax", secure=request.is_secure())
    return response
