"""Renders the parts of the pages that live. The same text serves the first page, the socket and the poll; so no request in here."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.cluster.models import Gpu, Site
from apps.core import clock
from apps.core.reasons import explain
from apps.dashboard.card_views import CardView, cards_for
from apps.dashboard.limits import bypasses, limits_of
from apps.dashboard.lists import Filters
from apps.dashboard.live.frames import Part, part
from apps.dashboard.quota_views import quota_lines
from apps.dashboard.slicing import slicing_of
from apps.dashboard.steps import steps_of
from apps.dashboard.workload_views import needing, views_of
from apps.quotas import selectors as quotas
from apps.tenants import selectors as tenants
from apps.tenants.models import Tenant
from apps.workloads import selectors as workloads
from apps.workloads.models import ENDED, Phase, Workload

_TONES = ("ready", "moving", "unknown", "waiting", "failed", "off")  # what can be used comes first
_CARDS_SHOWN = 4  # to one who waits for room on a card
_ENDED_SHOWN = 5  # of one's own on the home page, so that they can be started again


def _render(template: str, context: Mapping[str, Any]) -> Part:
    made = part(render_to_string(f"parts/{template}.html", dict(context)).strip())
    return Part(mark_safe(made.html), made.tag)  # noqa: S308 - rendered by our own template, which escapes


def cards_of(workload: Workload) -> list[Gpu]:
    """The cards that it holds, or held last."""
    return list(cluster.gpus().filter(uuid__in=workload.cards))


def workload_parts(actor: Actor, workload: Workload) -> dict[str, Part]:
    view = views_of(actor, [workload])[0]
    context = {
        "view": view,
        "workload": workload,
        "steps": steps_of(workload),
        "position": workloads.position(workload),
        "operator_entry": view.may.open and workload.owner_id != actor.user_id,
        "cards": [bar.card for bar in view.bars if bar.card],
        "in_the_way": _in_the_way(actor, workload),
        "notices": [explain(n.code, n.evidence) for n in workloads.notices(workload).filter(ended_at=None)],
    }
    names = ("head", "actions", "why", "limit", "share", "steps")
    return {name: _render(f"workload_{name}", context) for name in names}


def _in_the_way(actor: Actor, workload: Workload) -> list[CardView]:
    """Where it waits for room on a card: the cards that come closest, and who holds them."""
    if workload.phase != Phase.SCHEDULING:
        return []
    return cards_for(actor, [card["uuid"] for card in workload.evidence.get("cards", ())][:_CARDS_SHOWN])


def home_parts(actor: Actor, tenant: Tenant | None) -> dict[str, Part]:
    mine = workloads.visible_to(actor).filter(owner_id=actor.user_id)
    if tenant is not None:
        mine = mine.filter(tenant=tenant)
    views = views_of(actor, [*mine.exclude(phase__in=ENDED), *mine.filter(phase__in=ENDED)[:_ENDED_SHOWN]])
    views.sort(key=lambda view: _TONES.index(view.state.tone))
    places = [tenant] if tenant is not None else list(tenants.runs_in(actor))
    held = [(place, quota_lines(quotas.headroom(place, actor.user_id), place)) for place in places]
    context = {"rows": views, "may_run": bool(places), "show_tenant": len(places) > 1}
    return {
        "needs": _render("home_needs", {"needs": needing(views)}),
        "running": _render("home_running", context),
        "quota": _render("home_quota", {"quotas": held}),
    }


def list_parts(actor: Actor, scope: str, filters: Filters) -> dict[str, Part]:
    """`scope` is "mine" or "all" (all that the actor may see)."""
    rows = workloads.visible_to(actor)
    if scope == "mine":
        rows = rows.filter(Q(owner_id=actor.user_id))
    page = filters.apply(rows)
    context = {
        "rows": views_of(actor, page.object_list),
        "page": page,
        "filters": filters,
        "path": "/experiments/" if scope == "mine" else "/workloads/",
        "selectable": scope == "all",
        "show_owner": scope == "all",
        "show_tenant": True,
        "may_run": tenants.runs_in(actor).exists(),
    }
    return {"rows": _render("list_rows", context)}


def tenant_parts(actor: Actor, tenant: Tenant) -> dict[str, Part]:
    claims = list(quotas.holders(tenant))
    rows = workloads.visible_to(actor).filter(id__in=[claim.workload_id for claim in claims])
    views = {view.workload.id: view for view in views_of(actor, rows)}
    lines = quota_lines(quotas.lines(tenant), tenant)
    above = [line for line in quotas.headroom(tenant, None) if line.tenant_id != tenant.id and line.limit is not None]
    return {
        "quota": _render("tenant_quota", {"lines": lines, "above": quota_lines(above, tenant), "tenant": tenant}),
        "holders": _render("tenant_holders", {"held": [(claim, views.get(claim.workload_id)) for claim in claims]}),
    }


def _notes(site: Site, actor: Actor) -> list[str]:
    """How cards are cut is told to operators, in a place of its own; everybody else is told only what it keeps them from."""
    slicing = site.slicing
    told = {slicing.get("reason"), *(slicing.get("cannot") or ())}
    if not actor.is_operator:
        told -= set(slicing.get("cannot") or ())
    return [note if " " in note else explain(note).text for note in site.notes if note not in told]


def cluster_parts(actor: Actor) -> dict[str, Part]:
    site = cluster.site()
    age = (clock.now() - site.observed_at).total_seconds() if site else None
    slicing = slicing_of(site)
    context = {
        "site": site,
        "slicing": slicing if actor.is_operator else None,
        "limits": limits_of(cluster.gpus()) if actor.is_operator else (),
        "bypasses": bypasses(actor) if actor.sees_everything else (),
        "unknown": age is not None and age > workloads.STALE_AFTER.total_seconds(),
        "isolation": explain(site.isolation) if site else None,
        "notes": _notes(site, actor) if site else [],
        "cards": cards_for(actor),
        "nothing": _("No GPU was found here.") if site else "",
    }
    return {"site": _render("cluster_site", context), "cards": _render("cluster_cards", context)}
