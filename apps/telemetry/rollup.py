"""Coarser steps from finer ones, in SQL; retention. Each bucket is written once it is surely complete, and rewritten when repeated."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Avg, ExpressionWrapper, F, IntegerField, Max, Sum
from django.db.models.functions import Cast

from apps.telemetry.models import Sample, Step
from apps.telemetry.services import KEPT

# How a figure of a coarse step comes from the fine ones.
_MEANS = ("compute_used", "compute_limit", "memory_used", "memory_limit", "borrowed", "temperature", "power")
_HIGHEST = ("compute_peak", "denied_bytes", "uncounted_bytes")
_SUMS = ("throttled_ms",)
_LATE = 5  # seconds that a sample may be late before its bucket is closed


def run(now: int) -> None:
    for fine, coarse in ((Step.SECOND, Step.TEN_SECONDS), (Step.TEN_SECONDS, Step.FIVE_MINUTES)):
        _roll(fine, coarse, now)
    for step, seconds in KEPT.items():
        Sample.objects.filter(step=step, at__lt=now - seconds).delete()


@transaction.atomic
def _roll(fine: Step, coarse: Step, now: int) -> None:
    width = int(coarse)
    until = (now - _LATE) // width * width
    last = Sample.objects.filter(step=coarse).aggregate(last=Max("at"))["last"]
    since = max((last or 0) - width, now - KEPT[fine])
    bucket = ExpressionWrapper(F("at") - F("at") % width, output_field=IntegerField())
    figures = {
        **{name: Cast(Avg(name), IntegerField()) for name in _MEANS},
        **{name: Max(name) for name in _HIGHEST},
        **{name: Sum(name) for name in _SUMS},
    }
    rows: Iterable[Any] = (
        Sample.objects.filter(step=fine, at__gte=since, at__lt=until)
        .annotate(bucket=bucket)
        .values("subject", "bucket")
        .annotate(**{f"r_{name}": figure for name, figure in figures.items()})
        .order_by()
    )
    made = [
        Sample(step=coarse, subject=row["subject"], at=row["bucket"], **{name: row[f"r_{name}"] for name in figures})
        for row in rows
    ]
    Sample.objects.bulk_create(
        made,
        update_conflicts=True,
        update_fields=list(figures),
        unique_fields=["step", "subject", "at"],
        batch_size=500,
    )
