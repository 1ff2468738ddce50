"""What the frame of every page shows: where the person may go, and the tenants to switch between. Reads once per request."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actors import actor_of
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant


@dataclass(frozen=True, slots=True)
class Item:
    key: str  # of the keyboard map in ui.js
    icon: str
    label: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Navigation:
    items: list[Item]
    managing: list[Item]
    tenants: list[Tenant]  # in which the person may run something
    tenant: Tenant | None  # the one chosen by ?tenant=


def navigation_of(request: HttpRequest) -> Navigation:
    known = getattr(request, "_navigation", None)
    if isinstance(known, Navigation):
        return known
    made = _navigation(request)
    request._navigation = made  # type: ignore[attr-defined]  # kept for this request
    return made


def _navigation(request: HttpRequest) -> Navigation:
    actor = actor_of(request)
    here = request.path

    def item(key: str, icon: str, label: str, name: str) -> Item:
        url = reverse(name)
        return Item(key, icon, label, url, here == url if url == "/" else here.startswith(url))

    managing: list[Item] = []
    if actor.sees_everything or tenants.tenants_where(actor, at_least=Role.MANAGER).exists():
        managing = [
            item("tenants", "building", _("Tenants"), "tenants"),
            item("workloads", "stack-2", _("All workloads"), "workloads"),
            item("audit", "history", _("Audit trail"), "audit"),
        ]
    mine = list(tenants.runs_in(actor))
    wanted = request.GET.get("tenant", "")
    return Navigation(
        items=[
            item("home", "home", _("Home"), "home"),
            item("experiments", "flask", _("Experiments"), "experiments"),
            item("cluster", "cpu", _("GPUs"), "cluster"),
        ],
        managing=managing,
        tenants=mine,
        tenant=next((tenant for tenant in mine if tenant.slug == wanted), None),
    )
