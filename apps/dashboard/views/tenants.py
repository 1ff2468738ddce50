"""Tenants: the list, and one tenant with its quota, who holds it, and its members."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts import selectors as accounts
from apps.audit.context import Actor
from apps.core.errors import Conflict, InvalidInput, NotFound, NotPermitted, PortalError
from apps.dashboard.forms.people import MemberForm, TenantForm
from apps.dashboard.forms.quota import QuotaForm, first_values
from apps.dashboard.live import parts
from apps.dashboard.quota_views import quota_lines
from apps.dashboard.views.access import page
from apps.quotas import selectors as quotas
from apps.quotas import services as quota_services
from apps.tenants import policies, services
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant


def _tenant(actor: Actor, slug: str) -> Tenant:
    found = tenants.visible_to(actor).filter(slug=slug).values_list("id", flat=True).first()
    if found is None:
        raise NotFound(_("There is no such tenant, or it is not yours to see."))
    return tenants.get(actor, found)


def _allows(policy: Any, actor: Actor, tenant: Tenant) -> bool:
    try:
        policy(actor, tenant)
    except (NotFound, NotPermitted):
        return False
    return True


@require_http_methods(["GET", "HEAD", "POST"])
@page
def tenant_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    form = TenantForm(request.POST if request.method == "POST" else None, actor=actor)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_tenant(actor=actor, **form.cleaned_data)
        except InvalidInput as error:
            form.add_error(None, " ".join(str(sentence) for sentence in (error.fields.values() or [error.message])))
        else:
            return redirect("tenant", made.slug)
    rows = (
        tenants.tenants_where(actor, at_least=Role.VIEWER)
        .select_related("parent")
        .order_by("parent__name", "kind", "name")
    )
    manages = actor.is_operator or form.fields["parent"].queryset.exists()  # type: ignore[attr-defined]
    held = [(row, quota_lines(quotas.lines(row), row)) for row in rows]
    context = {"rows": held, "form": form if manages else None}
    return render(request, "tenants/list.html", context, status=422 if form.is_bound else 200)


def _page(request: HttpRequest, actor: Actor, tenant: Tenant, **forms: Any) -> HttpResponse:
    manages = _allows(policies.may_manage, actor, tenant)
    sets_quota = _allows(policies.may_set_quota, actor, tenant)
    quota = quotas.quota_of(tenant)
    context = {
        "tenant": tenant,
        "topic": f"tenant:{tenant.id}",
        "parts": parts.tenant_parts(actor, tenant),
        "members": tenants.members_of(tenant),
        "above": tenants.members_above(tenant),
        "roles": Role.choices,
        "manages": manages,
        "member_form": forms.get("member_form") or MemberForm(),
        "quota_form": (forms.get("quota_form") or QuotaForm(initial=first_values(quota))) if sets_quota else None,
        "has_quota": quota is not None,
    }
    return render(request, "tenants/detail.html", context, status=422 if forms else 200)


@require_GET
@page
def tenant_page(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    return _page(request, actor, _tenant(actor, slug))


@require_POST
@page
def set_member(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """Add somebody, or give another role."""
    tenant = _tenant(actor, slug)
    policies.may_manage(actor, tenant)
    form = MemberForm(request.POST)
    if not form.is_valid():
        return _page(request, actor, tenant, member_form=form)
    user = accounts.find_user(form.cleaned_data["username"])
    if user is None:
        form.add_error("username", _("There is nobody with this user name. Ask the person how it is written."))
        return _page(request, actor, tenant, member_form=form)
    try:
        services.set_member(actor=actor, tenant=tenant, user=user, role=form.cleaned_data["role"])
    except Conflict as error:
        messages.error(request, str(error.message))
    return redirect("tenant", slug)


@require_POST
@page
def remove_member(request: HttpRequest, actor: Actor, slug: str, user_id: UUID) -> HttpResponse:
    tenant = _tenant(actor, slug)
    policies.may_manage(actor, tenant)
    member = tenants.members_of(tenant).filter(user_id=user_id).first()
    if member is None:
        raise NotFound(_("This person is no member here."))
    try:
        services.remove_member(actor=actor, tenant=tenant, user=member.user)
    except Conflict as error:
        messages.error(request, str(error.message))
    else:
        messages.success(
            request,
            _("%(user)s is no longer a member. What they run goes on running until somebody stops it.")
            % {"user": member.user},
        )
    return redirect("tenant", slug)


@require_POST
@page
def set_quota(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    tenant = _tenant(actor, slug)
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return _page(request, actor, tenant, quota_form=form)
    try:
        quota_services.set_quota(
            actor=actor, tenant=tenant, limits=form.limits, expected_version=form.cleaned_data["version"]
        )
    except (Conflict, InvalidInput) as error:
        for name, sentence in error.fields.items():
            form.add_error(name, str(sentence))
        form.add_error(None, " ".join(filter(None, (str(error.message), str(error.hint)))))
        return _page(request, actor, tenant, quota_form=form)
    messages.success(request, _("The quota of %(tenant)s is changed.") % {"tenant": tenant.name})
    return redirect("tenant", slug)


@require_GET
@page
def quota_effect(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """What the numbers in the editor would mean, before anything is saved."""
    tenant = _tenant(actor, slug)
    form = QuotaForm(request.GET)
    context: dict[str, Any] = {"tenant": tenant, "effect": None}
    if form.is_valid():
        try:
            effect = quota_services.set_quota(actor=actor, tenant=tenant, limits=form.limits, dry_run=True)
        except PortalError as error:
            context["problem"] = error
        else:
            above = {line.dimension for line in effect.above}
            context |= {"effect": effect, "lines": quota_lines(effect.lines, tenant), "above": above}
    return render(request, "parts/quota_effect.html", context)
