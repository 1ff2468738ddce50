"""The one place that changes a workload's phase: by the table, its step closed and the next one opened, and the bells rung.

Callers hold the row's lock; what they changed besides the phase they save themselves.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from apps.core import bells, clock
from apps.workloads.models import ENDED, Step, Workload
from apps.workloads.states import Event, transition

PHASE_FIELDS = ("phase", "phase_since", "reason", "evidence", "version")


def plain(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read back from its row, so that it can be compared with one."""
    read: dict[str, Any] = json.loads(json.dumps(dict(evidence), cls=DjangoJSONEncoder))
    return read


def move(
    workload: Workload,
    event: Event,
    *,
    reason: str,
    evidence: Mapping[str, Any] | None = None,
    by_controller: bool = False,
    also: Sequence[str] = (),
) -> bool:
    """Apply `event` and save, with the fields in `also`, which the caller has set.

    Returns False, and saves nothing, where nothing that anybody could see has changed. The controller does not wake itself.
    """
    phase = transition(workload.phase, event)
    return _enter(workload, phase, reason, plain(evidence or {}), by_controller, also)


def would_move(workload: Workload, event: Event, *, reason: str, evidence: Mapping[str, Any]) -> bool:
    """Whether `move` would change anything that somebody could see."""
    told = (transition(workload.phase, event), reason, plain(evidence))
    return told != (workload.phase, workload.reason, workload.evidence)


def begin(workload: Workload, events: Sequence[tuple[Event, str, Mapping[str, Any]]]) -> None:
    """A run's first phases at once: insert the workload, or save its new run. The caller has set everything else."""
    now = clock.now()
    steps: list[Step] = []
    for event, reason, evidence in events:
        workload.phase, workload.reason = transition(workload.phase, event), reason
        workload.evidence, workload.phase_since = plain(evidence), now
        steps.append(_step(workload, now))
    for step in steps[:-1]:
        step.ended_at = now
    workload.save(force_insert=workload._state.adding)
    Step.objects.bulk_create(steps)
    ring(workload)


def note(workload: Workload, *, reason: str, evidence: Mapping[str, Any] | None = None) -> bool:
    """The controller has another reason for the same phase: what it waits for, what goes slowly."""
    return _enter(workload, workload.phase, reason, plain(evidence or {}), True, ())


def _enter(
    workload: Workload, phase: str, reason: str, evidence: dict[str, Any], by_controller: bool, also: Sequence[str]
) -> bool:
    if (phase, reason, evidence) == (workload.phase, workload.reason, workload.evidence):
        return False
    now = clock.now()
    new_stretch = (phase, reason) != (workload.phase, workload.reason)
    if phase != workload.phase:
        workload.phase_since = now
    workload.phase, workload.reason, workload.evidence = phase, reason, evidence
    workload.version += 1
    workload.save(update_fields=[*PHASE_FIELDS, *also])
    if new_stretch:
        _next_step(workload, now)
    else:
        workload.steps.filter(ended_at=None).update(evidence=evidence)
    ring(workload, by_controller=by_controller)
    return True


def _next_step(workload: Workload, now: datetime) -> None:
    workload.steps.filter(ended_at=None).update(ended_at=now)
    _step(workload, now).save()


def _step(workload: Workload, now: datetime) -> Step:
    return Step(
        workload=workload,
        run=workload.run,
        phase=workload.phase,
        reason=workload.reason,
        evidence=workload.evidence,
        began_at=now,
        ended_at=now if workload.phase in ENDED else None,
    )


def ring(workload: Workload, *, by_controller: bool = False) -> None:
    """Its page, its owner's list, its tenant's list, and the controller."""
    topics = [f"workload:{workload.id}", f"user:{workload.owner_id}", f"tenant:{workload.tenant_id}"]
    bells.ring(*topics, *([] if by_controller else [f"controller:{workload.id}"]))
