"""May X do Y in tenant Z? Raises NotFound to outsiders, who may not know that it exists, and NotPermitted to those who may know."""

from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.core.errors import NotFound, NotPermitted
from apps.tenants.models import Role, Tenant
from apps.tenants.selectors import RANK, role_in


def require_role(actor: Actor, tenant: Tenant, at_least: Role, *, scope: str, otherwise: str) -> Role:
    role = role_in(actor, tenant)
    if role is None:
        raise NotFound(_("There is no such tenant, or it is not yours to see."))
    if RANK[role] < RANK[at_least]:
        raise NotPermitted(otherwise)
    require_scope(actor, scope)
    return role


def require_scope(actor: Actor, scope: str) -> None:
    if not actor.has_scope(scope):
        raise NotPermitted(
            _("This token may not do that."),
            code="missing_scope",
            hint=_("It lacks the scope “%(scope)s”. Make a token that has it.") % {"scope": scope},
            evidence={"scope": scope},
        )


def may_view(actor: Actor, tenant: Tenant) -> None:
    require_role(actor, tenant, Role.VIEWER, scope="read", otherwise="")


def may_run(actor: Actor, tenant: Tenant) -> None:
    """Start something of one's own."""
    require_role(
        actor,
        tenant,
        Role.MEMBER,
        scope="experiments:write",
        otherwise=_("You may look at %(tenant)s, but not run anything in it.") % {"tenant": tenant},
    )


def may_manage(actor: Actor, tenant: Tenant) -> None:
    """Change members, and stop everybody's workloads."""
    require_role(
        actor,
        tenant,
        Role.MANAGER,
        scope="members:write",
        otherwise=_("Only managers of %(tenant)s do that.") % {"tenant": tenant},
    )


def may_set_quota(actor: Actor, tenant: Tenant) -> None:
    """Operators everywhere; managers of a department in the tenants below it, never their own limit."""
    otherwise = _("The quota of %(tenant)s is set by operators, and by managers of the department above it.") % {
        "tenant": tenant
    }
    require_role(actor, tenant, Role.VIEWER, scope="quotas:write", otherwise=otherwise)
    if actor.is_operator:
        return
    parent = tenant.parent
    if parent is None or role_in(actor, parent) != Role.MANAGER:
        raise NotPermitted(otherwise)


def may_create_tenant(actor: Actor, parent: Tenant | None) -> None:
    """Operators everywhere; managers of a department below it."""
    if actor.is_operator:
        return
    if parent is None:
        raise NotPermitted(_("Only operators make departments."))
    may_manage(actor, parent)
