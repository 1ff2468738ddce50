"""The one place that changes a workload's phase: by the table, its step closed and the next one opened, and the bells rung.

Callers hold the row's lock; what they changed besides the phase they save themselves.
"""

from collections.abc import Mapping
from typing import Any

from apps.core import bells, clock
from apps.workloads.models import ENDED, Step, Workload
from apps.workloads.states import Event, transition

PHASE_FIELDS = ("phase", "phase_since", "reason", "evidence", "version")


def move(workload: Workload, event: Event, *, reason: str, evidence: Mapping[str, Any] | None = None) -> bool:
    """Apply `event`. Returns False where nothing that anybody could see has changed."""
    return _enter(workload, transition(workload.phase, event), reason, dict(evidence or {}))


def note(workload: Workload, *, reason: str, evidence: Mapping[str, Any] | None = None) -> bool:
    """Another reason for being in the same phase: what it waits for, what goes slowly."""
    return _enter(workload, workload.phase, reason, dict(evidence or {}))


def _enter(workload: Workload, phase: str, reason: str, evidence: dict[str, Any]) -> bool:
    if (phase, reason, evidence) == (workload.phase, workload.reason, workload.evidence):
        return False
    now = clock.now()
    new_stretch = (phase, reason) != (workload.phase, workload.reason)
    if phase != workload.phase:
        workload.phase_since = now
    workload.phase, workload.reason, workload.evidence = phase, reason, evidence
    workload.version += 1
    workload.save(update_fields=PHASE_FIELDS)
    if new_stretch:
        workload.steps.filter(ended_at=None).update(ended_at=now)
        Step.objects.create(
            workload=workload,
            run=workload.run,
            phase=phase,
            reason=reason,
            evidence=evidence,
            began_at=now,
            ended_at=now if phase in ENDED else None,
        )
    else:
        workload.steps.filter(ended_at=None).update(evidence=evidence)
    ring(workload)
    return True


def ring(workload: Workload) -> None:
    """Its page, its owner's list, its tenant's list, and the controller."""
    bells.ring(
        f"workload:{workload.id}",
        f"user:{workload.owner_id}",
        f"tenant:{workload.tenant_id}",
        f"controller:{workload.id}",
    )
