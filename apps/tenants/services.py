"""Makes tenants and changes who belongs to them."""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.core import bells, ids
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.slugs import slug_for
from apps.tenants import policies
from apps.tenants.models import Membership, Role, Tenant, TenantKind
from apps.tenants.selectors import members_of


@transaction.atomic
def create_tenant(
    *, actor: Actor, name: str, kind: str = TenantKind.TENANT, parent: Tenant | None = None, slug: str = ""
) -> Tenant:
    policies.may_create_tenant(actor, parent)
    if parent is not None and parent.kind != TenantKind.DEPARTMENT:
        raise InvalidInput(_("Only departments have tenants below them."), fields={"parent": _("Choose a department.")})
    unique = ids.new_id()
    tenant = Tenant(id=unique, kind=kind, parent=parent, name=name.strip(), slug=slug or _free_slug(name, unique))
    _checked(tenant).save(force_insert=True)
    audit.record(
        actor=actor, verb="tenant.create", target=tenant, tenant=tenant.id, after={"name": tenant.name, "kind": kind}
    )
    bells.ring(f"tenant:{tenant.id}")
    return tenant


def _free_slug(name: str, unique: Any) -> str:
    """`vision-lab` where it is readable and free, else one made unique."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50]
    if len(plain) >= 3 and not Tenant.objects.filter(slug=plain).exists():
        return plain
    return slug_for(name, unique)[-50:].strip("-")


def _checked(tenant: Tenant) -> Tenant:
    try:
        tenant.full_clean(exclude=["parent"])
    except ValidationError as error:
        raise InvalidInput(
            _("This tenant cannot be kept so."), fields={k: v[0] for k, v in error.message_dict.items()}
        ) from error
    return tenant


@transaction.atomic
def rename_tenant(*, actor: Actor, tenant: Tenant, name: str) -> Tenant:
    """The slug stays: links go on working."""
    policies.may_manage(actor, tenant)
    before = tenant.name
    tenant.name = name.strip()
    _checked(tenant).save(update_fields=["name"])
    audit.record(
        actor=actor,
        verb="tenant.rename",
        target=tenant,
        tenant=tenant.id,
        before={"name": before},
        after={"name": tenant.name},
    )
    bells.ring(f"tenant:{tenant.id}")
    return tenant


@transaction.atomic
def set_member(*, actor: Actor, tenant: Tenant, user: Any, role: str) -> Membership:
    """Give the role, or change to it. What the person runs is not touched."""
    policies.may_manage(actor, tenant)
    if role not in Role.values:
        raise InvalidInput(
            _("There is no such role."),
            fields={"role": _("Choose one of %(roles)s.") % {"roles": ", ".join(Role.values)}},
        )
    Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
    before = tenant.memberships.filter(user=user).first()
    if before is not None and before.role == role:
        return before
    if before is not None and before.role == Role.MANAGER:
        _keep_a_manager(actor, tenant, user)
    member, _created = Membership.objects.update_or_create(tenant=tenant, user=user, defaults={"role": role})
    audit.record(
        actor=actor,
        verb="member.set",
        target=tenant,
        tenant=tenant.id,
        before={"user": user.username, "role": before.role} if before else {},
        after={"user": user.username, "role": role},
    )
    bells.ring(f"tenant:{tenant.id}", f"user:{user.id}")
    return member


@transaction.atomic
def remove_member(*, actor: Actor, tenant: Tenant, user: Any) -> None:
    """What the person runs goes on running until somebody stops it."""
    policies.may_manage(actor, tenant)
    Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
    member = tenant.memberships.filter(user=user).first()
    if member is None:
        raise NotFound(_("%(user)s is no member of %(tenant)s.") % {"user": user, "tenant": tenant})
    if member.role == Role.MANAGER:
        _keep_a_manager(actor, tenant, user)
    member.delete()
    audit.record(
        actor=actor,
        verb="member.remove",
        target=tenant,
        tenant=tenant.id,
        before={"user": user.username, "role": member.role},
    )
    bells.ring(f"tenant:{tenant.id}", f"user:{user.id}")


def _keep_a_manager(actor: Actor, tenant: Tenant, user: Any) -> None:
    """Nobody locks the last manager out by mistake; operators may."""
    if actor.is_operator:
        return
    if not members_of(tenant).filter(role=Role.MANAGER).exclude(user=user).exists():
        raise Conflict(
            _("%(user)s is the last manager of %(tenant)s. Make somebody else a manager first.")
            % {"user": user, "tenant": tenant}
        )
