"""Operators see whether the cluster is as Tessera needs it. One look for each time that the page is asked for."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.audit.context import Actor
from apps.cluster import services as cluster
from apps.dashboard.diagnosis import view_of
from apps.dashboard.views.access import operators_only, page


@require_GET
@page
def diagnosis(request: HttpRequest, actor: Actor) -> HttpResponse:
    operators_only(actor)
    found = cluster.diagnose()
    return render(request, "diagnosis.html", {"view": view_of(found) if found else None})
