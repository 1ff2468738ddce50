"""What a tenant may hold, and the ledger of what it holds. A claim is written at admission and settled when its run is observed gone."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.core import clock, ids
from apps.tenants.models import Tenant


class Quota(models.Model):
    """Limits of one node of the tenant tree; None is "no limit here".

    A missing row is a quota of nothing at all for a tenant, and no limit for a department.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="quota", primary_key=True)
    gpu_memory = models.PositiveBigIntegerField(null=True, blank=True)  # bytes
    gpu_compute = models.PositiveBigIntegerField(null=True, blank=True)  # per mille of a card, summed
    cpu_milli = models.PositiveBigIntegerField(null=True, blank=True)  # thousandths of a core
    ram = models.PositiveBigIntegerField(null=True, blank=True)  # bytes
    running = models.PositiveIntegerField(null=True, blank=True)  # workloads that hold a claim
    running_per_user = models.PositiveIntegerField(null=True, blank=True)
    pending = models.PositiveIntegerField(null=True, blank=True)  # workloads that wait; 0 refuses instead of queueing
    version = models.PositiveIntegerField(
        default=1
    )  # ETag of the API; admission locks the tenant's row, which always exists
    updated_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"quota of {self.tenant}"


class Claim(models.Model):
    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    workload_id = models.UUIDField(db_index=True)
    run = models.PositiveIntegerField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="claims")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="claims")
    gpu_memory = models.PositiveBigIntegerField(default=0)
    gpu_compute = models.PositiveBigIntegerField(default=0)
    cpu_milli = models.PositiveBigIntegerField(default=0)
    ram = models.PositiveBigIntegerField(default=0)
    held_at = models.DateTimeField(default=clock.now)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["held_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workload_id"], condition=Q(settled_at=None), name="one_held_claim_per_workload"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant"], condition=Q(settled_at=None), name="held_claims_of_tenant")
        ]

    def __str__(self) -> str:
        return f"claim of {self.workload_id} run {self.run}"
