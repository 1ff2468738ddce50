"""What the gateway remembers: who was let in to which workload, and when a workload was last used."""

from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.core import clock, ids
from apps.workloads.models import Workload

TICKET_LIFE = timedelta(seconds=60)


class Pass(models.Model):
    """One way in: first a ticket, good once and for a minute, then the cookie of one browser for one workload.

    It is worth nothing without the portal's session behind it: when that ends, so does the pass. Of the cookie only the
    hash is kept.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    redeemed_at = models.DateTimeField(null=True, blank=True)
    secret_hash = models.CharField(
        max_length=64, unique=True, null=True, blank=True
    )  # SHA-256 of the cookie, in hexadecimal

    class Meta:
        verbose_name_plural = "passes"
        indexes: ClassVar = [models.Index(fields=["user", "created_at"], name="pass_user_created")]

    def __str__(self) -> str:
        return f"pass of {self.user_id} for {self.workload_id}"


class Activity(models.Model):
    """When somebody last used a workload through the gateway, to within `activity.PERIOD`."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, primary_key=True, related_name="activity")
    last_request_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "activities"

    def __str__(self) -> str:
        return f"{self.workload_id} at {self.last_request_at}"
