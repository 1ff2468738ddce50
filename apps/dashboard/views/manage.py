"""What managers and operators watch: GPUs (everybody may), all workloads, the audit trail."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from apps.audit import selectors as audit
from apps.audit.context import Actor
from apps.audit.models import Event
from apps.core.errors import NotFound, PortalError
from apps.dashboard.lists import Filters, states
from apps.dashboard.live import parts
from apps.dashboard.views.access import page
from apps.dashboard.workload_views import views_of
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant
from apps.workloads import selectors as workloads
from apps.workloads import services
from apps.workloads.models import Workload

_EVENTS = 100  # a page of the trail
_BULK = 200  # stopped at once


@require_GET
@page
def cluster(request: HttpRequest, actor: Actor) -> HttpResponse:
    context = {"topic": "cluster:", "parts": parts.cluster_parts(actor), "operator": actor.is_operator}
    return render(request, "cluster.html", context)


def _managed(actor: Actor) -> QuerySet[Tenant]:
    """Tenants whose everything the actor oversees. Raises NotFound where there is none: then these pages are not for it."""
    at_least = Role.VIEWER if actor.sees_everything else Role.MANAGER
    found = tenants.tenants_where(actor, at_least=at_least)
    if not actor.sees_everything and not found.exists():
        raise NotFound(_("There is no such page, or it is not yours to see."))
    return found


@require_GET
@page
def workload_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    managed = _managed(actor)
    filters = Filters.of(request.GET)
    context = {
        "filters": filters,
        "states": states(),
        "tenant_choices": managed,
        "topic": f"list:all{filters.link()}",
        "parts": parts.list_parts(actor, "all", filters),
    }
    return render(request, "workloads.html", context)


def _chosen(request: HttpRequest, actor: Actor) -> QuerySet[Workload]:
    ids = []
    for raw in request.POST.getlist("workload")[:_BULK]:
        try:
            ids.append(UUID(raw))
        except ValueError:
            continue
    return workloads.visible_to(actor).filter(id__in=ids).order_by("owner__username", "name")


@require_POST
@page
def bulk_stop(request: HttpRequest, actor: Actor) -> HttpResponse:
    """First a page that says whom it hits; with `confirm`, the deed, one by one, each with its own outcome."""
    _managed(actor)
    views = [view for view in views_of(actor, _chosen(request, actor)) if view.may.stop]
    if not views:
        messages.warning(request, _("Nothing that runs was chosen."))
        return redirect("workloads")
    if "confirm" not in request.POST:
        owners = sorted({str(view.workload.owner) for view in views})
        return render(request, "bulk_stop.html", {"rows": views, "owners": owners})
    stopped, problems = 0, []
    for view in views:
        try:
            services.stop(actor=actor, workload=view.workload, reason=request.POST.get("reason", "").strip())
            stopped += 1
        except PortalError as error:
            problems.append(str(error.message))
    for problem in problems:
        messages.error(request, problem)
    done = ngettext("%(count)d experiment is being stopped.", "%(count)d experiments are being stopped.", stopped)
    messages.success(request, done % {"count": stopped})
    return redirect("workloads")


@require_GET
@page
def audit_trail(request: HttpRequest, actor: Actor) -> HttpResponse:
    managed = _managed(actor)
    ids = None if actor.sees_everything else list(managed.order_by().values_list("id", flat=True))
    found = _filtered(audit.events(tenant_ids=ids), request)
    trail = Paginator(found, _EVENTS).get_page(request.GET.get("page"))
    names = {str(tenant.id): tenant.name for tenant in tenants.visible_to(actor)}
    context = {
        "trail": trail,
        "rows": [(event, names.get(event.tenant_id, ""), _changes(event)) for event in trail],
        "tenant_choices": managed,
        "q": request.GET.get("q", ""),
        "chosen_tenant": request.GET.get("tenant", ""),
    }
    return render(request, "audit.html", context)


def _filtered(events: QuerySet[Event], request: HttpRequest) -> QuerySet[Event]:
    query, tenant = request.GET.get("q", "").strip()[:100], request.GET.get("tenant", "")
    if query:
        fields = ("actor_label", "verb", "target_label", "reason")
        wanted = Q()
        for name in fields:
            wanted |= Q(**{f"{name}__icontains": query})
        events = events.filter(wanted)
    if tenant:
        found = Tenant.objects.filter(slug=tenant).values_list("id", flat=True).first()
        events = events.filter(tenant_id=str(found or "none"))
    return events


def _changes(event: Event) -> list[tuple[str, object, object]]:
    """Field, before, after: only what differs."""
    names = list(dict.fromkeys([*event.before, *event.after]))
    return [
        (name, event.before.get(name), event.after.get(name))
        for name in names
        if event.before.get(name) != event.after.get(name)
    ]
