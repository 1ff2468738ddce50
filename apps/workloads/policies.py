"""Who may do what to a workload. Outsiders get NotFound; who sees it but may not change it gets NotPermitted."""

from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.core.errors import NotFound, NotPermitted
from apps.tenants.models import Role
from apps.tenants.policies import require_scope
from apps.tenants.selectors import RANK, role_in
from apps.workloads.models import Workload


def _role(actor: Actor, workload: Workload) -> Role | None:
    role = role_in(actor, workload.tenant)
    if role is None and workload.owner_id != actor.user_id:
        raise NotFound(_("There is no such workload, or it is not yours to see."))
    return role


def _is_owner(actor: Actor, workload: Workload) -> bool:
    return workload.owner_id == actor.user_id and actor.tenant_id in (None, workload.tenant_id)


def may_end(actor: Actor, workload: Workload) -> None:
    """Stop, delete, rename, extend: the owner, managers of the tenant, operators."""
    role = _role(actor, workload)
    if not (_is_owner(actor, workload) or (role is not None and RANK[role] >= RANK[Role.MANAGER])):
        raise NotPermitted(_("“%(name)s” belongs to %(owner)s. Only they and managers do that.") % _names(workload))
    require_scope(actor, "experiments:write")


def may_start(actor: Actor, workload: Workload) -> None:
    """The owner while a member of the tenant, and operators: it counts against the owner's own limit."""
    role = _role(actor, workload)
    if actor.is_operator:
        return
    if not _is_owner(actor, workload):
        raise NotPermitted(_("“%(name)s” belongs to %(owner)s. Only they start it.") % _names(workload))
    if role is None or RANK[role] < RANK[Role.MEMBER]:
        raise NotPermitted(
            _("You are no longer a member of %(tenant)s, so you cannot start anything in it.") % _names(workload)
        )
    require_scope(actor, "experiments:write")


def _names(workload: Workload) -> dict[str, str]:
    return {"name": workload.name, "owner": str(workload.owner), "tenant": workload.tenant.name}
