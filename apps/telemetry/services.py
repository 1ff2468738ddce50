"""Writes samples, rolls them up, forgets old ones. Late and duplicate samples change nothing that is there already."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime

from apps.cluster.specs import Sample as Seen
from apps.core import bells
from apps.telemetry.models import Sample, Step

SEEN = tuple(f.name for f in fields(Seen) if f.name not in ("subject", "at", "bypass"))
FIGURES = (*SEEN, "compute_peak")  # the highest second within a coarse step
KEPT = {Step.SECOND: 15 * 60, Step.TEN_SECONDS: 48 * 3600, Step.FIVE_MINUTES: 90 * 24 * 3600}  # seconds
BATCH = 500  # rows per statement: below SQLite's limit on variables


def ingest(samples: Sequence[Seen]) -> int:
    """Store one batch of seconds; rings `samples`. Returns how many rows were offered."""
    rows = [
        Sample(
            step=Step.SECOND,
            subject=s.subject,
            at=int(s.at.timestamp()),
            **{name: getattr(s, name) for name in SEEN},
        )
        for s in samples
    ]
    if rows:
        Sample.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)
        bells.ring("samples")
    return len(rows)


def roll_up(now: datetime) -> None:
    """Make the coarser steps from the finer ones and delete what is older than `KEPT`. Safe to repeat."""
    from apps.telemetry import rollup

    rollup.run(int(now.timestamp()))
