"""Who sees which tenant, and with which role."""

from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.core.errors import NotFound
from apps.tenants.models import Membership, Role, Tenant, TenantKind
from apps.tenants.tree import Nodes, path_to

RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.MANAGER: 3}


def _granted(actor: Actor, at_least: Role) -> Nodes:
    """Where the actor's own memberships give the role: there, and in all below."""
    if actor.user_id is None or actor.user is None or not actor.user.is_active:
        return Nodes.none()
    return Nodes.granted(actor.user_id, (role for role, rank in RANK.items() if rank >= RANK[at_least])).with_below()


def _everywhere(actor: Actor, at_least: Role) -> bool:
    role = _platform_role(actor)
    return role is not None and RANK[role] >= RANK[at_least]


def _where(actor: Actor, at_least: Role) -> Nodes:
    return _within_token(actor, Nodes.all() if _everywhere(actor, at_least) else _granted(actor, at_least))


def _within_token(actor: Actor, nodes: Nodes) -> Nodes:
    """A token may be restricted to one tenant and what lies below it."""
    return nodes if actor.tenant_id is None else nodes & Nodes.one(actor.tenant_id).with_below()


def tenants_where(actor: Actor, *, at_least: Role) -> QuerySet[Tenant]:
    """Tenants and departments in which the actor has the role: by membership there or above, or for the platform."""
    if _everywhere(actor, at_least) and actor.tenant_id is None:
        return Tenant.objects.all()
    return Tenant.objects.filter(id__in=_where(actor, at_least).ids)


def _platform_role(actor: Actor) -> Role | None:
    """The role that an operator or auditor has in every tenant; a token needs the scope `platform` for it."""
    if actor.is_system:
        return Role.MANAGER
    if actor.user is None or not actor.has_scope("platform"):
        return None
    if actor.user.is_operator:
        return Role.MANAGER
    return Role.VIEWER if actor.user.sees_everything else None


def visible_to(actor: Actor) -> QuerySet[Tenant]:
    """Tenants whose name the actor may know: those where it has a role, and what lies above them (of those the name only)."""
    if actor.sees_everything:
        return Tenant.objects.all()
    return Tenant.objects.filter(id__in=_where(actor, Role.VIEWER).with_above().ids)


def get(actor: Actor, tenant_id: UUID) -> Tenant:
    """A tenant in which the actor has some role. Raises NotFound also where it exists and is none of the actor's business."""
    tenant = tenants_where(actor, at_least=Role.VIEWER).filter(id=tenant_id).select_related("parent").first()
    if tenant is None:
        raise NotFound(_("There is no such tenant, or it is not yours to see."))
    return tenant


def role_in(actor: Actor, tenant: Tenant) -> Role | None:
    """The highest role that the actor has there, by membership in it or in a department above."""
    if actor.is_operator:
        return Role.MANAGER
    if actor.tenant_id not in (None, tenant.id) and actor.tenant_id not in path_to(tenant.id):
        return None
    everywhere = _platform_role(actor)
    found: list[Role] = [everywhere] if everywhere is not None else []
    if actor.user is not None and actor.user.is_active:
        held = Membership.objects.filter(user=actor.user, tenant_id__in=Nodes.one(tenant.id).with_above().ids)
        found += [Role(role) for role in held.order_by().values_list("role", flat=True)]
    return max(found, key=RANK.__getitem__, default=None)


def runs_in(actor: Actor) -> QuerySet[Tenant]:
    """Tenants (no departments) of which the actor is a member: where it may start something of its own."""
    mine = _within_token(actor, _granted(actor, Role.MEMBER))
    return Tenant.objects.filter(id__in=mine.ids, kind=TenantKind.TENANT)


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """Roles given in this very tenant; who manages it from above is not among them."""
    return tenant.memberships.select_related("user")


def members_above(tenant: Tenant) -> QuerySet[Membership]:
    """Roles that hold here because they were given in a department above."""
    path = Membership.objects.filter(tenant_id__in=Nodes.one(tenant.id).with_above().ids)
    return path.exclude(tenant=tenant).select_related("user", "tenant")
