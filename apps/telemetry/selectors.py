"""Reads samples, as columns for charts and as the newest figures. Which subjects an actor may read is the caller's question."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from django.db.models import Max

from apps.core import clock
from apps.telemetry.models import Sample, Step
from apps.telemetry.services import FIGURES, KEPT

MAX_POINTS = 900  # of one series


class HasCards(Protocol):
    @property
    def uid(self) -> str: ...
    @property
    def cards(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Subjects:
    runs: list[str]  # the workload's own part of each of its cards
    cards: list[str]  # these cards as a whole

    def __iter__(self) -> Any:
        return iter([*self.runs, *self.cards])


def subjects_of(workload: HasCards) -> Subjects:
    return Subjects(
        [f"run:{workload.uid}:{card}" for card in workload.cards], [f"card:{card}" for card in workload.cards]
    )


def step_for(seconds: int) -> Step:
    """The finest step that is kept that long and gives a chart's number of points."""
    for step in (Step.SECOND, Step.TEN_SECONDS):
        if seconds <= min(KEPT[step], MAX_POINTS * step):
            return step
    return Step.FIVE_MINUTES


def series(
    subject: str, *, seconds: int, step: int | None = None, since: int | None = None
) -> dict[str, list[int | None]]:
    """Columns `at` (Unix seconds) and every figure, oldest first, for the last `seconds`; `since` gives only what is newer than that second."""
    chosen = Step(step) if step is not None else step_for(seconds)
    start = int((clock.now() - timedelta(seconds=seconds)).timestamp())
    if since is not None:
        start = max(start, since + 1)
    rows = Sample.objects.filter(step=chosen, subject=subject, at__gte=start).order_by("at").values_list("at", *FIGURES)
    columns: list[list[int | None]] = [list(column) for column in zip(*rows, strict=True)] or [
        [] for _ in range(len(FIGURES) + 1)
    ]
    return dict(zip(("at", *FIGURES), columns, strict=True))


def latest(subjects: Iterable[str], *, within_seconds: int = 60) -> dict[str, Sample]:
    """The newest second of each subject; one without any in the last minute is missing: "no data", not zero."""
    start = int((clock.now() - timedelta(seconds=within_seconds)).timestamp())
    seconds = Sample.objects.filter(step=Step.SECOND, subject__in=list(subjects), at__gte=start)
    newest = dict(seconds.order_by().values_list("subject").annotate(newest=Max("at")))
    found = seconds.filter(at__in=set(newest.values()))
    return {sample.subject: sample for sample in found if newest.get(sample.subject) == sample.at}
