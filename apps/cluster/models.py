"""The inventory mirror: what the driver last said of its machines and cards. Disposable; the controller rewrites it."""

from typing import ClassVar

from django.db import models


class Site(models.Model):
    """The one row about the driver as a whole."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    driver = models.CharField(max_length=32)
    isolation = models.CharField(max_length=32)
    notes = models.JSONField(default=list)
    slicing = models.JSONField(default=dict)  # of `specs.Slicing`; empty where there is one way only
    resizing = models.CharField(max_length=16, default="none")  # `specs.Resizing`
    cpu_milli = models.PositiveBigIntegerField(default=0)
    ram = models.PositiveBigIntegerField(default=0)
    observed_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.driver


class Health(models.Model):
    """The one row that the controller's driver keeps about itself. As old as `told_at`, whatever the cluster does."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    content = models.JSONField(default=dict)
    told_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"health at {self.told_at}"


class Gpu(models.Model):
    """One card. All of them are as old as the site's `observed_at`."""

    uuid = models.CharField(max_length=64, primary_key=True)
    node = models.CharField(max_length=253)
    index = models.PositiveIntegerField()
    model = models.CharField(max_length=100)
    memory = models.PositiveBigIntegerField()  # allocatable bytes
    physical_memory = models.PositiveBigIntegerField()
    healthy = models.BooleanField(default=True)
    health_reason = models.CharField(max_length=200, blank=True)
    simulated = models.BooleanField(default=False)
    attributes = models.JSONField(default=dict)
    holders = models.JSONField(default=list)  # [{"uid", "memory", "compute", "ceiling"}]

    class Meta:
        ordering: ClassVar = ["node", "index"]

    def __str__(self) -> str:
        return f"{self.model} {self.index} on {self.node}"

    @property
    def allocated_memory(self) -> int:
        return sum(h["memory"] for h in self.holders)

    @property
    def allocated_compute(self) -> int:
        return sum(h["compute"] for h in self.holders)
