"""Coarser steps from finer ones, in SQL, and retention. A bucket is written once it is complete, and again while late samples may come."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Avg, BigIntegerField, ExpressionWrapper, F, Max
from django.db.models.functions import Cast, Coalesce, Round

from apps.telemetry.models import Sample, Step
from apps.telemetry.services import BATCH, KEPT

# How a figure of a coarse step comes from the fine ones.
_MEANS = (
    "compute_used",
    "compute_limit",
    "memory_used",
    "memory_limit",
    "throttled_ms",
    "borrowed",
    "temperature",
    "power",
)
_HIGHEST = ("denied_bytes", "uncounted_bytes")
_COMPLETE_AFTER = 3  # seconds after its end, a bucket counts as complete
_LATE = {Step.SECOND: 30, Step.TEN_SECONDS: 300}  # seconds that a sample may be late and still count


def run(now: int) -> None:
    """`now` in Unix seconds."""
    for fine, coarse in ((Step.SECOND, Step.TEN_SECONDS), (Step.TEN_SECONDS, Step.FIVE_MINUTES)):
        _roll(fine, coarse, now)
    for step, seconds in KEPT.items():
        Sample.objects.filter(step=step, at__lt=now - seconds).delete()


def _roll(fine: Step, coarse: Step, now: int) -> None:
    width = int(coarse)
    until = (now - _COMPLETE_AFTER) // width * width
    last = Sample.objects.filter(step=coarse).aggregate(last=Max("at"))["last"]
    if last is not None and last >= until - width and fine is not Step.SECOND:
        return  # no bucket has become complete
    since = max((last or 0) - _LATE[fine], now - KEPT[fine])
    made = [Sample(step=coarse, **row) for row in _buckets(fine, width, -(-since // width) * width, until)]
    fields = [*_MEANS, *_HIGHEST, "compute_peak"]
    with transaction.atomic():
        Sample.objects.bulk_create(
            made, update_conflicts=True, update_fields=fields, unique_fields=["step", "subject", "at"], batch_size=BATCH
        )


def _buckets(fine: Step, width: int, since: int, until: int) -> Iterable[dict[str, Any]]:
    """Whole buckets of `width` seconds within [since, until), as columns of the coarse rows."""
    start = ExpressionWrapper(F("at") - F("at") % width, output_field=BigIntegerField())
    figures: dict[str, Any] = {f"new_{name}": Cast(Round(Avg(name)), BigIntegerField()) for name in _MEANS}
    figures |= {f"new_{name}": Max(name) for name in _HIGHEST}
    figures["new_compute_peak"] = Max(Coalesce("compute_peak", "compute_used"))
    rows: Any = (
        Sample.objects.filter(step=fine, at__gte=since, at__lt=until)
        .annotate(start=start)
        .values("subject", "start")
        .annotate(**figures)
        .order_by()
    )
    for row in rows:
        yield {"subject": row["subject"], "at": row["start"], **{name[4:]: row[name] for name in figures}}
