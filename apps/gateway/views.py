"""The portal's side of the gateway: who is signed in and may open a workload is sent there with a ticket."""

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.gateway import addresses, services
from apps.workloads.models import Workload
from apps.workloads.selectors import reachable, visible_to


@require_GET
@never_cache
@login_required
def open_by_id(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    return _open(request, Workload.objects.filter(id=workload_id).values_list("slug", flat=True).first())


@require_GET
@never_cache
@login_required
def open_by_slug(request: HttpRequest, slug: str) -> HttpResponse:
    """Where the gateway sends a browser without a pass, whether or not the host exists."""
    return _open(request, slug)


def _open(request: HttpRequest, slug: str | None) -> HttpResponse:
    user, actor = request.user, actor_of(request)
    assert isinstance(user, User)
    workload = reachable(user, slug) if slug else None
    if workload is None:
        if slug and visible_to(actor).filter(slug=slug).exists():
            raise PermissionDenied(_("Only its owner may open this."))
        raise Http404
    ticket = services.issue_ticket(
        actor=actor,
        user=user,
        workload=workload,
        session_key=request.session.session_key or "",
        page=request.GET.get("next", ""),
    )
    return HttpResponse(status=303, headers={"Location": addresses.enter(workload.slug, ticket)})
