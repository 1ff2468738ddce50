"""The one table of things that run. Rows say what is wanted and hold the last observation; the cluster says what is."""

from datetime import datetime, timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.catalog.models import Environment
from apps.core import clock, ids
from apps.core.share import GpuShare, Resources
from apps.tenants.models import Tenant


class Desired(models.TextChoices):
    RUNNING = "running", _("running")
    STOPPED = "stopped", _("stopped")
    DELETED = "deleted", _("deleted")


class Phase(models.TextChoices):
    DRAFT = "draft", _("draft")
    QUEUED = "queued", _("queued")  # waits for quota
    ADMITTED = "admitted", _("admitted")  # holds its claim on the quota
    SCHEDULING = "scheduling", _("waiting for a GPU")
    PREPARING = "preparing", _("preparing")
    STARTING = "starting", _("starting")
    READY = "ready", _("ready")
    STOPPING = "stopping", _("stopping")
    STOPPED = "stopped", _("stopped")
    FAILED = "failed", _("failed")


ENDED = (Phase.STOPPED, Phase.FAILED)


class Workload(models.Model):
    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=200)
    slug = models.CharField(max_length=63, unique=True)  # host name under the gateway's domain
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="workloads")
    # The same key of the same owner is the same request. NULL is no key, and equals no other.
    request_key = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    gpu_count = models.PositiveIntegerField(default=0)
    gpu_memory = models.PositiveBigIntegerField(default=0)
    gpu_compute = models.PositiveIntegerField(default=0)
    gpu_ceiling = models.PositiveIntegerField(default=0)
    cpu_milli = models.PositiveIntegerField(default=1000)
    ram = models.PositiveBigIntegerField(default=2 * 1024**3)

    # The share in force while another one is on its way to the cluster (GpuShare as a dictionary); null: the row's own is in force.
    resize_from = models.JSONField(null=True, blank=True)

    desired = models.CharField(max_length=16, choices=Desired.choices, default=Desired.RUNNING)
    generation = models.PositiveIntegerField(default=1)  # rises with every change of what is wanted; ETag of the API
    run = models.PositiveIntegerField(default=1)  # rises with every start
    phase = models.CharField(max_length=16, choices=Phase.choices, default=Phase.DRAFT)
    phase_since = models.DateTimeField(default=clock.now)
    queued_at = models.DateTimeField(default=clock.now)  # its place in the queue for quota; a new run queues anew
    reason = models.CharField(max_length=64, blank=True)  # code of core.reasons: why it waits, or why it ended
    evidence = models.JSONField(default=dict)
    time_limit_seconds = models.PositiveIntegerField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)  # set when ready; the time limit counts from there

    # Last observation, a cache that `reconcile` overwrites.
    cards = models.JSONField(default=list)  # UUIDs
    node = models.CharField(max_length=253, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)  # older than a few seconds means unknown

    version = models.PositiveBigIntegerField(default=1)  # rises with every visible change; what live pages compare
    created_at = models.DateTimeField(default=clock.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    # When the controller's timer must look at it: the warning before the time limit, then the limit.
    next_due_at = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["owner", "request_key"], name="one_workload_per_request_key"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "phase"], name="workload_tenant_phase"),
            models.Index(fields=["owner", "-created_at"], name="workload_owner_created"),
            models.Index(fields=["-created_at", "-id"], condition=Q(deleted_at=None), name="workload_list"),
            models.Index(fields=["queued_at"], condition=Q(phase=Phase.QUEUED), name="workload_queue"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def share(self) -> GpuShare | None:
        if not self.gpu_count:
            return None
        return GpuShare(self.gpu_count, self.gpu_memory, self.gpu_compute, self.gpu_ceiling)

    @property
    def resources(self) -> Resources:
        return Resources(gpu=self.share, cpu_milli=self.cpu_milli, ram=self.ram)

    @resources.setter
    def resources(self, wanted: Resources) -> None:
        gpu = wanted.gpu
        self.gpu_count, self.gpu_memory = (gpu.count, gpu.memory) if gpu else (0, 0)
        self.gpu_compute, self.gpu_ceiling = (gpu.compute, gpu.ceiling) if gpu else (0, 0)
        self.cpu_milli, self.ram = wanted.cpu_milli, wanted.ram

    @property
    def uid(self) -> str:
        """Its name in the cluster, for good."""
        return str(self.id)

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    @property
    def warn_at(self) -> datetime | None:
        """From when on pages warn of the time limit: its last tenth, at least 5 and at most 30 minutes."""
        if self.expires_at is None:
            return None
        tenth = (self.time_limit_seconds or 0) // 10
        return self.expires_at - timedelta(seconds=min(max(tenth, 300), 1800))

    def start_clock(self, now: datetime) -> None:
        """The time limit counts from `now`; the timer looks first when the warning is due."""
        self.expires_at = now + timedelta(seconds=self.time_limit_seconds or 0)
        self.next_due_at = self.warn_at


class Step(models.Model):
    """One stretch of one run in one phase: the step tree of the page, and the history of what made it wait."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="steps")
    run = models.PositiveIntegerField()
    phase = models.CharField(max_length=16, choices=Phase.choices)
    reason = models.CharField(max_length=64, blank=True)
    evidence = models.JSONField(default=dict)
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["run", "began_at", "id"]

    def __str__(self) -> str:
        return f"{self.workload_id} run {self.run}: {self.phase}"


class Notice(models.Model):
    """Something about one run that its people and operators should know, for as long as it holds: a code of the catalogue, with evidence."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="notices")
    run = models.PositiveIntegerField()
    code = models.CharField(max_length=64)
    evidence = models.JSONField(default=dict)
    began_at = models.DateTimeField(default=clock.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-began_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workload", "code"], condition=Q(ended_at=None), name="one_open_notice_of_a_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} run {self.run}: {self.code}"


class Lease(models.Model):
    """Who is the one active controller. Taken and kept by conditional update; `holder` is new with every taking, so it fences off
    everybody who held it before: each write of a controller checks it in its own transaction.
    """

    name = models.CharField(max_length=50, primary_key=True)
    holder = models.CharField(max_length=100)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"
