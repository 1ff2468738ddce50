"""From the words of a request to rows that the asker may see."""

from uuid import UUID

from django.utils.translation import gettext_lazy as _

from apps.audit.context import Actor
from apps.core.errors import InvalidInput, NotFound
from apps.experiments.kind import NAME
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant
from apps.workloads import selectors as workloads
from apps.workloads.models import Workload


def tenant_at(actor: Actor, slug: str) -> Tenant:
    """The tenant of an address. Raises NotFound also where it exists and the actor has no role in it."""
    tenant = tenants.tenants_where(actor, at_least=Role.VIEWER).filter(slug=slug).select_related("parent").first()
    if tenant is None:
        raise NotFound(_("There is no such tenant, or it is not yours to see."))
    return tenant


def tenant_named(actor: Actor, slug: str, field: str) -> Tenant:
    """The tenant that a body refers to. Raises InvalidInput on the field, not NotFound: the address itself exists."""
    try:
        return tenant_at(actor, slug)
    except NotFound as error:
        raise InvalidInput(error.message, fields={field: error.message}) from None


def experiment_at(actor: Actor, experiment_id: UUID) -> Workload:
    workload = workloads.get(actor, experiment_id)
    if workload.kind != NAME:
        raise NotFound(_("There is no such experiment, or it is not yours to see."))
    return workload
