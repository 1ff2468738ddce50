"""Experiments: list, request with its verdict, page, and what can be done on it."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.catalog import selectors as catalog
from apps.cluster import services as cluster
from apps.core import units
from apps.core.errors import NotFound, NotPermitted, PortalError
from apps.core.reasons import explain
from apps.core.share import Resources
from apps.dashboard.forms.experiment import CUSTOM, ExperimentForm, first_values, numbers_of
from apps.dashboard.lists import Filters, states
from apps.dashboard.live import parts
from apps.dashboard.navigation import navigation_of
from apps.dashboard.quota_views import changed_lines
from apps.dashboard.views import resizing
from apps.dashboard.views.access import page
from apps.dashboard.workload_views import Rights
from apps.experiments import services as experiments
from apps.quotas import selectors as quotas
from apps.tenants import selectors as tenants
from apps.workloads import selectors as workloads
from apps.workloads.models import Workload


@require_GET
@page
def experiment_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    filters = Filters.of(request.GET)
    context = {
        "filters": filters,
        "states": states(),
        "tenant_choices": tenants.runs_in(actor),
        "topic": f"list:mine{filters.link()}",
        "parts": parts.list_parts(actor, "mine", filters),
    }
    return render(request, "experiments/list.html", context)


def _first_values(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    places = list(tenants.runs_in(actor))
    mine = workloads.visible_to(actor).filter(owner_id=actor.user_id)
    last = mine.first()
    chosen = navigation_of(request).tenant
    slug = chosen.slug if chosen else (last.tenant.slug if last and last.tenant in places else places[0].slug)
    return first_values(
        tenant_slug=slug,
        last=last,
        flavours=list(catalog.flavours()),
        environments=list(catalog.environments("experiment")),
        name=_("Notebook %(number)d") % {"number": mine.count() + 1},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page
def new(request: HttpRequest, actor: Actor) -> HttpResponse:
    if not tenants.runs_in(actor).exists():
        return render(request, "experiments/new.html", {"form": None})
    if request.method == "POST":
        form = ExperimentForm(request.POST, actor=actor)
        made = _request(form, actor) if form.is_valid() else None
        if made is not None:
            return redirect(made)
        return _form_page(request, actor, form, status=422)
    return _form_page(request, actor, ExperimentForm(initial=_first_values(request, actor), actor=actor))


def _request(form: ExperimentForm, actor: Actor) -> str | None:
    """The address of the experiment; None where it was refused, and the form says why."""
    cleaned = form.cleaned_data
    try:
        made = experiments.request_experiment(
            actor=actor,
            tenant=cleaned["tenant"],
            name=cleaned["name"],
            environment=cleaned["environment"],
            resources=form.resources,
            time_limit_seconds=form.time_limit_seconds,
            key=str(cleaned["key"]),
        )
    except PortalError as error:
        for name, sentence in error.fields.items():
            form.add_error(name if name in form.fields else None, str(sentence))
        form.add_error(None, " ".join(filter(None, (str(error.message), str(error.hint)))))
        return None
    return reverse("experiment", args=[made.id])


def _form_page(request: HttpRequest, actor: Actor, form: ExperimentForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "flavours": catalog.flavours(),
        "environments": catalog.environments("experiment"),
        **_verdict(actor, ExperimentForm(_as_sent(form), actor=actor)),
    }
    return render(request, "experiments/new.html", context, status=status)


def _as_sent(form: ExperimentForm) -> QueryDict:
    """The values that the form shows, as if it had been sent: for the verdict on what is preselected."""
    sent = QueryDict(mutable=True)
    for name in form.fields:
        value = form[name].value()
        sent[name] = "" if value is None else str(value)
    return sent


@require_GET
@page
def verdict(request: HttpRequest, actor: Actor) -> HttpResponse:
    form = ExperimentForm(request.GET, actor=actor)
    return render(request, "parts/verdict.html", _verdict(actor, form))


def _verdict(actor: Actor, form: ExperimentForm) -> dict[str, Any]:
    """Of what is chosen so far; a missing name or environment is no reason to say nothing."""
    form.full_clean()
    tenant = form.cleaned_data.get("tenant")
    numbers = {"flavour", "gpu_memory", "gpu_compute", "gpu_ceiling", "gpu_count", "cpu", "ram"}
    if tenant is None or numbers & form.errors.keys():
        return {"verdict": None}
    found = experiments.preview(actor=actor, tenant=tenant, resources=form.resources)
    return {
        "verdict": found,
        "why": explain(found.reason, found.evidence),
        "nearest": _nearest(found),
        "lines": changed_lines(found.lines_after, quotas.headroom(tenant, actor.user_id), tenant),
        "tenant": tenant,
    }


def _nearest(found: experiments.Verdict) -> dict[str, str] | None:
    """What to fill into the form at one click, and its name: a preset where one fits, else the numbers."""
    if found.nearest_flavour is not None:
        flavour = found.nearest_flavour
        return {
            "label": f"{flavour.label} ({_said(flavour.resources)})",
            "fields": json.dumps({"flavour": flavour.slug}),
        }
    if found.nearest is None:
        return None
    numbers = {"flavour": CUSTOM, **numbers_of(found.nearest)}
    return {"label": _said(found.nearest), "fields": json.dumps(numbers)}


def _said(resources: Resources) -> str:
    gpu = resources.gpu
    if gpu is None:
        return f"{units.format_milli(resources.cpu_milli)} CPU, {units.format_bytes(resources.ram)}"
    count = f"{gpu.count} × " if gpu.count > 1 else ""
    return f"{count}{units.format_permille(gpu.compute)}, {units.format_bytes(gpu.memory)}"


@require_GET
@page
def terminal(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    """The page only; the socket decides again who may in, and goes on asking."""
    workload = workloads.get(actor, workload_id)
    if cluster.terminals() is None:
        raise NotFound(_("Experiments here have no terminal of their own. JupyterLab has one: File, New, Terminal."))
    if not isinstance(request.user, User) or workloads.reachable(request.user, workload.slug) is None:
        raise NotPermitted(_("“%(name)s” belongs to %(owner)s. Only they have a terminal in it.") % _names(workload))
    context = {
        "workload": workload,
        "url": reverse("experiment", args=[workload.id]),
        "topic": f"workload:{workload.id}",
        "parts": parts.workload_parts(actor, workload),
        "recorded": workload.owner_id != actor.user_id,
    }
    return render(request, "experiments/terminal.html", context)


def _names(workload: Workload) -> dict[str, str]:
    return {"name": workload.name, "owner": str(workload.owner)}


@require_GET
@page
def detail(request: HttpRequest, actor: Actor, workload_id: UUID) -> HttpResponse:
    workload = workloads.get(actor, workload_id)
    cards = parts.cards_of(workload)
    may = Rights.of(actor).on(workload)
    context = {
        "workload": workload,
        "may": may,
        "url": reverse("experiment", args=[workload.id]),
        "topic": f"workload:{workload.id}",
        "parts": parts.workload_parts(actor, workload),
        "cards": range(workload.gpu_count),
        "card_memory": max((card.memory for card in cards), default=workload.gpu_memory),
        **(resizing.dialog(actor, workload) if may.resize else {}),
        "extensions": ((3600, _("1 hour")), (14400, _("4 hours")), (86400, _("1 day"))),
    }
    return render(request, "experiments/detail.html", context)
