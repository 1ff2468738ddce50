"""Another share from the page of an experiment: the dialog, its verdict before the click, and the click."""

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.cluster.specs import Resizing
from apps.core import units
from apps.core.errors import PortalError
from apps.core.reasons import explain
from apps.core.share import Resources
from apps.dashboard.forms.experiment import numbers_of
from apps.dashboard.forms.resize import ResizeForm
from apps.dashboard.live import parts
from apps.dashboard.views.access import page
from apps.workloads import resizing
from apps.workloads import selectors as workloads
from apps.workloads.models import Workload


def dialog(actor: Actor, workload: Workload) -> dict[str, Any]:
    """What the dialog shows before anything was chosen; None where there is no share to change."""
    if workload.share is None:
        return {"resize_form": None}
    form = _form(workload)
    sent = {name: form[name].value() for name in form.fields}
    return {"resize_form": form, **_verdict(actor, workload, _form(workload, sent))}


@require_GET
@page
def verdict(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    return render(request, "parts/resize_verdict.html", _verdict(actor, workload, _form(workload, request.GET)))


@require_POST
@page
def resize(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    form = _form(workload, request.POST)
    if form.is_valid():
        try:
            changed = resizing.resize(actor=actor, workload=workload, change=form.change)
        except PortalError as error:
            messages.error(request, " ".join(filter(None, (str(error.message), str(error.hint)))))
        else:
            on_its_way = _("The new share is on its way.") if changed.resize_from else _("The share is set.")
            messages.success(request, on_its_way)
    else:
        messages.error(request, _("Some answers need another look."))
    return redirect(reverse("experiment", args=[workload.id]))


def _form(workload: Workload, sent: Any = None) -> ResizeForm:
    site = cluster.site()
    fixed = site is not None and site.resizing == Resizing.WITHIN and not workload.has_ended
    cards = parts.cards_of(workload) or list(cluster.gpus())
    largest = max((card.memory for card in cards), default=workload.gpu_memory)
    return ResizeForm(sent, workload=workload, largest=max(largest, workload.gpu_memory), fixed=fixed)


def _verdict(actor: Actor, workload: Workload, form: ResizeForm) -> dict[str, Any]:
    if workload.share is None or not form.is_valid():
        return {"resize_verdict": None}
    try:
        found = resizing.preview(actor=actor, workload=workload, change=form.change)
    except PortalError:
        return {"resize_verdict": None}
    return {
        "resize_verdict": found,
        "resize_why": explain(found.reason, found.evidence),
        "resize_nearest": _nearest(found),
        "unchanged": found.before == found.after,
    }


def _nearest(found: resizing.Verdict) -> dict[str, str] | None:
    share = found.nearest
    if share is None:
        return None
    numbers = numbers_of(Resources(share, 0, 0))
    label = f"{units.format_permille(share.compute)}, {units.format_bytes(share.memory)}"
    fields = {name: numbers[name] for name in ("gpu_memory", "gpu_compute", "gpu_ceiling")}
    return {"label": label, "fields": json.dumps(fields)}
