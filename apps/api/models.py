"""Replies kept for repeated requests: see `apps.api.idempotency`."""

from typing import ClassVar

from django.db import models

from apps.core import clock, ids


class KeptReply(models.Model):
    """What a request with an Idempotency-Key was answered. Written in the transaction of the change itself."""

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    actor = models.CharField(
        max_length=80
    )  # "token:<id>" or "user:<id>": a token must not read what another token's request made
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)  # SHA-256 of method, address and body
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["actor", "key"], name="one_reply_per_actor_and_key")]

    def __str__(self) -> str:
        return f"{self.actor} {self.key}"
