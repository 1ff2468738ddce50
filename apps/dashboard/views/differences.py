"""Operators compare the ledger with the cluster, and set right what differs: first a preview, then a confirmed deed."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from apps.audit.context import Actor
from apps.cluster.differences import Repair
from apps.core import clock
from apps.core.errors import InvalidInput, PortalError, Unavailable
from apps.dashboard import differences
from apps.dashboard.differences import Choice, DifferenceView, Look
from apps.dashboard.views.access import operators_only, page
from apps.workloads import adoption, books


@require_GET
@page
def difference_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    operators_only(actor)
    problem = ""
    found = None
    try:
        found = differences.look()
    except Unavailable as error:
        problem = str(error.message)
    context = {"look": found, "views": found.views if found else (), "problem": problem, "at": clock.now()}
    return render(request, "differences/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def repair(request: HttpRequest, actor: Actor, key: str, repair: str) -> HttpResponse:
    """The preview; with a POST the deed, on what a new look shows. Nothing is done to what has changed meanwhile."""
    operators_only(actor)
    found = differences.look()
    view = found.view(key) if found else None
    choice = view.choice(repair) if view else None
    if found is None or view is None or choice is None:
        messages.info(request, _("That difference is no more, or has changed. This is how it is now."))
        return redirect("differences")
    if request.method == "POST":
        try:
            _do(actor, found, view, choice, request.POST.get("reason", "").strip())
        except PortalError as error:
            messages.error(request, " ".join(filter(None, (str(error.message), str(error.hint)))))
        else:
            messages.success(request, _done(view, choice))
        return redirect("differences")
    return render(request, "differences/repair.html", {"view": view, "choice": choice})


def _do(actor: Actor, found: Look, view: DifferenceView, choice: Choice, reason: str) -> None:
    if choice.repair is Repair.ADOPT:
        spec = found.spec(view)
        if spec is None:
            raise InvalidInput(_("What it was made from cannot be read."))
        adoption.adopt_one(actor=actor, spec=spec, reason=reason)
    elif choice.repair is Repair.REPAIR:
        books.settle(actor=actor, workload_id=UUID(view.difference.uid), reason=reason)
    else:
        books.record_removal(actor=actor, difference=view.difference, reason=reason)
        found.remove(view)


def _done(view: DifferenceView, choice: Choice) -> str:
    name = {"name": view.name or ", ".join(view.difference.objects)}
    if choice.repair is Repair.ADOPT:
        return _("“%(name)s” is in the portal now.") % name
    if choice.repair is Repair.REPAIR:
        return _("What was charged for “%(name)s” is given back.") % name
    return _("“%(name)s” is being removed. It is listed until the cluster has let go of it.") % name
