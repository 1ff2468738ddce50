"""Samples of cards and claims: one a second for the last quarter of an hour, then 10 s, then 5 min. Read through `selectors` only."""

from typing import ClassVar

from django.db import models


class Step(models.IntegerChoices):
    SECOND = 1
    TEN_SECONDS = 10
    FIVE_MINUTES = 300


class Sample(models.Model):
    """Means of the seconds within `step` seconds from `at` (Unix seconds); counters and peaks: their highest.

    NULL is "no data", never zero. Units as in cluster.specs.Sample.
    """

    pk = models.CompositePrimaryKey("step", "subject", "at")
    step = models.PositiveSmallIntegerField(choices=Step.choices)
    subject = models.CharField(max_length=120)
    at = models.PositiveBigIntegerField()
    compute_used = models.PositiveIntegerField(null=True)
    compute_limit = models.PositiveIntegerField(null=True)
    compute_peak = models.PositiveIntegerField(null=True)
    memory_used = models.PositiveBigIntegerField(null=True)
    memory_limit = models.PositiveBigIntegerField(null=True)
    throttled_ms = models.PositiveIntegerField(null=True)
    denied_bytes = models.PositiveBigIntegerField(null=True)
    uncounted_bytes = models.PositiveBigIntegerField(null=True)
    borrowed = models.PositiveIntegerField(null=True)
    temperature = models.SmallIntegerField(null=True)
    power = models.PositiveIntegerField(null=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["step", "at"], name="sample_step_at")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.at}"
