"""Writes audit events. Called by services inside the transaction of the change that they record."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Model

from apps.audit.context import Actor
from apps.audit.models import Event


def target_id(target: Model) -> str:
    """Its `id`: the key of a token is the hash of its secret, which belongs nowhere else."""
    return str(getattr(target, "id", target.pk))


def record(
    *,
    actor: Actor,
    verb: str,
    target: Model,
    tenant: UUID | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> Event:
    """`verb` is `noun.verb`; `tenant` decides whose managers see the event; `before` and `after` hold plain JSON and no secrets."""
    return Event.objects.create(
        actor_id=str(actor.user_id or ""),
        actor_label=actor.label[:200],
        token_id=actor.token_id,
        tenant_id=str(tenant or ""),
        verb=verb,
        target_type=target._meta.model_name or "",
        target_id=target_id(target),
        target_label=str(target)[:200],
        before=dict(before or {}),
        after=dict(after or {}),
        reason=reason[:500],
        request_id=actor.request_id[:64],
        ip=actor.ip,
    )
