"""The portal's side of the gateway: who is signed in and may open a workload is sent there with a ticket."""

from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.views import redirect_to_login
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

_SIGNED_IN = "signed_in"  # marks the address to which the sign-in form leads back


@require_GET
@never_cache
def open_by_id(request: HttpRequest, workload_id: UUID) -> HttpResponse:
    return _open(request, Workload.objects.filter(id=workload_id).values_list("slug", flat=True).first())


@require_GET
@never_cache
def open_by_slug(request: HttpRequest, slug: str) -> HttpResponse:
    """Where the gateway sends a browser without a pass, whether or not the host exists."""
    return _open(request, slug)


def _open(request: HttpRequest, slug: str | None) -> HttpResponse:
    user = request.user
    if not isinstance(user, User):
        return redirect_to_login(f"{request.path}?{urlencode({**request.GET.dict(), _SIGNED_IN: 1})}")
    actor = actor_of(request)
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
    return _go(addresses.enter(workload.slug, ticket), after_form=_SIGNED_IN in request.GET)


def _go(address: str, *, after_form: bool) -> HttpResponse:
    """After the sign-in form the browser would hold a redirect to another origin against our `form-action` policy; so it ends here
    and a new visit begins."""
    if after_form:
        return HttpResponse(headers={"Refresh": f"0; url={address}"})
    return HttpResponse(status=303, headers={"Location": address})
