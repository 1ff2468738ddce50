"""The audit trail: append-only, written by the service that makes the change, in the same transaction."""

from typing import Any, ClassVar

from django.db import models

from apps.core import clock, ids


class AppendOnly(models.QuerySet["Event"]):
    def update(self, **_kwargs: Any) -> int:
        raise TypeError("audit events are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("audit events are never deleted")


class Event(models.Model):
    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    at = models.DateTimeField(default=clock.now, db_index=True)
    actor_id = models.CharField(max_length=64, blank=True)  # "" for Tessera itself
    actor_label = models.CharField(max_length=200)
    token_id = models.CharField(max_length=64, blank=True)
    tenant_id = models.CharField(max_length=64, blank=True, db_index=True)
    verb = models.CharField(max_length=64, db_index=True)  # "experiment.create", "quota.set"
    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    target_label = models.CharField(max_length=200)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    reason = models.CharField(max_length=500, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    ip = models.GenericIPAddressField(null=True, blank=True)

    objects = AppendOnly.as_manager()

    class Meta:
        ordering: ClassVar = ["-at", "-id"]
        indexes: ClassVar = [models.Index(fields=["target_type", "target_id", "at"], name="audit_target_at")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor_label} {self.verb} {self.target_label}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("audit events are never changed")
        super().save(*args, **kwargs)

    def delete(self, *_args: Any, **_kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("audit events are never deleted")
