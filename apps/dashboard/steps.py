"""The step tree of a run: what it went through, how long each stretch took, what is still to come."""

from dataclasses import dataclass
from datetime import datetime

from apps.core.reasons import Explanation, explain
from apps.workloads import selectors as workloads
from apps.workloads.models import Phase, Step, Workload

WAY = (Phase.QUEUED, Phase.ADMITTED, Phase.SCHEDULING, Phase.PREPARING, Phase.STARTING, Phase.READY)
_OPTIONAL = (Phase.QUEUED, Phase.SCHEDULING)  # passed through only where something has to be waited for


@dataclass(frozen=True, slots=True)
class StepView:
    title: str
    icon: str
    tone: str
    began_at: datetime | None = None
    seconds: float | None = None  # None: still going on, or still to come
    why: Explanation | None = None

    @property
    def is_current(self) -> bool:
        return self.began_at is not None and self.seconds is None


def steps_of(workload: Workload) -> list[StepView]:
    """Of the latest run, in order, and after them what is still to come."""
    done = [_view(step) for step in workloads.steps(workload)]
    return done + _to_come(workload)


def _view(step: Step) -> StepView:
    phase = Phase(step.phase)
    why = explain(step.reason or step.phase, step.evidence)
    seconds = (step.ended_at - step.began_at).total_seconds() if step.ended_at else None
    icon, tone = _look(phase, ended=step.ended_at is not None)
    title = why.title if step.reason and phase != Phase.STOPPING else str(phase.label)
    return StepView(title[:1].upper() + title[1:], icon, tone, step.began_at, seconds, why)


def _look(phase: Phase, *, ended: bool) -> tuple[str, str]:
    if phase == Phase.FAILED:
        return "circle-x", "failed"
    if phase == Phase.STOPPED:
        return "square", "off"
    if phase == Phase.READY or ended:
        return "circle-check", "ready"
    return ("hourglass", "waiting") if phase in _OPTIONAL else ("loader", "moving")


def _to_come(workload: Workload) -> list[StepView]:
    if workload.phase not in WAY or workload.phase == Phase.READY:
        return []
    rest = WAY[WAY.index(Phase(workload.phase)) + 1 :]
    return [StepView(_word(phase), "circle-dashed", "off") for phase in rest if phase not in _OPTIONAL]


def _word(phase: Phase) -> str:
    label = str(phase.label)
    return label[:1].upper() + label[1:]
