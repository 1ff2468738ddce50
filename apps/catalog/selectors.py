"""Reads what can be chosen."""

from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from apps.catalog.models import Environment, Flavour
from apps.core.errors import NotFound
from apps.tenants.models import Tenant


def environments(kind: str = "experiment") -> QuerySet[Environment]:
    return Environment.objects.filter(kind=kind, is_active=True)


def flavours(tenant: Tenant | None = None) -> QuerySet[Flavour]:
    """Every tenant has the same choice for now; what its quota allows is `experiments.services.preview`'s answer."""
    del tenant
    return Flavour.objects.filter(is_active=True)


def environment(environment_id: UUID) -> Environment:
    found = Environment.objects.filter(id=environment_id, is_active=True).first()
    if found is None:
        raise NotFound(_("There is no such environment, or it is no longer offered."))
    return found


def flavour(flavour_id: UUID) -> Flavour:
    found = Flavour.objects.filter(id=flavour_id, is_active=True).first()
    if found is None:
        raise NotFound(_("There is no such flavour, or it is no longer offered."))
    return found
