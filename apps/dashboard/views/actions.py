"""What can be done to a workload: each a POST that calls one service and comes back to the page with a sentence."""

from uuid import UUID

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.audit.context import Actor
from apps.cluster import services as cluster
from apps.core.errors import InvalidInput, NotFound
from apps.dashboard.views.access import page
from apps.experiments import services as experiments
from apps.workloads import selectors as workloads
from apps.workloads import services
from apps.workloads.models import Workload

_LOG_BYTES = 8 * 1024**2


def _back(workload: Workload) -> HttpResponse:
    return redirect(reverse("experiment", args=[workload.id]))


@require_POST
@page
def stop(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    services.stop(actor=actor, workload=workload, reason=request.POST.get("reason", ""))
    return _back(workload)


@require_POST
@page
def start(_request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    services.start(actor=actor, workload=workload)
    return _back(workload)


@require_POST
@page
def extend(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    sent = request.POST.get("seconds", "")
    if not (sent.isascii() and sent.isdigit() and len(sent) < 9):
        raise InvalidInput(_("Choose by how much to extend."))
    services.extend(actor=actor, workload=workload, seconds=int(sent))
    messages.success(request, _("Extended."))
    return _back(workload)


@require_POST
@page
def rename(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    try:
        services.rename(actor=actor, workload=workload, name=request.POST.get("name", ""))
    except InvalidInput as error:
        messages.error(request, str(next(iter(error.fields.values()), error.message)))
    return _back(workload)


@require_POST
@page
def delete(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    remove_home = request.POST.get("home") == "remove"
    experiments.delete_experiment(actor=actor, workload=workload, remove_home=remove_home)
    messages.success(request, _("“%(name)s” is being deleted.") % {"name": workload.name})
    return redirect("experiments")


@require_GET
@page
def log(_request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    """The output of the latest run, as a file; of very long output the end."""
    workload = workloads.get(actor, workload_id)
    try:
        chunk = async_to_sync(cluster.reader().logs)(workload.uid, offset=-_LOG_BYTES, limit=_LOG_BYTES)
        text = chunk.text
    except NotFound:
        text = ""
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{workload.slug}.log.txt"'
    return response
