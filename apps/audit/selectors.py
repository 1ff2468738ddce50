"""Reads the audit trail. Which tenants an actor may read is the caller's question (`tenants.selectors`)."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Model, QuerySet

from apps.audit.models import Event
from apps.audit.services import target_id


def events(*, tenant_ids: Iterable[UUID] | None = None, target: Model | None = None) -> QuerySet[Event]:
    """Newest first. `tenant_ids` None is the whole platform; events without a tenant are shown there only."""
    found = Event.objects.all()
    if tenant_ids is not None:
        found = found.filter(tenant_id__in=[str(tenant_id) for tenant_id in tenant_ids])
    if target is not None:
        found = found.filter(target_type=target._meta.model_name, target_id=target_id(target))
    return found
