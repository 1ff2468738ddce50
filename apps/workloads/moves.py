"""The one place that changes a workload's phase: by the table, with its step closed and the next one opened, and the bells rung.

Callers hold the row's lock and save nothing themselves.
"""

from collections.abc import Mapping
from typing import Any

from apps.core import bells, clock
from apps.workloads.models import ENDED, Step, Workload
from apps.workloads.states import Event, transition

PHASE_FIELDS = ("phase", "phase_since", "reason", "evidence", "version")


def move(workload: Workload, event: Event, *, reason: str, evidence: Mapping[str, Any] | None = None) -> bool:
    """Apply `event` and save. Returns False where nothing that anybody could see has changed."""
    phase = transition(workload.phase, event)
    facts = dict(evidence or {})
    if phase == workload.phase and workload.reason == reason and workload.evidence == facts:
        return False
    new_stretch = phase != workload.phase or workload.reason != reason
    workload.phase, workload.reason, workload.evidence = phase, reason, facts
    workload.version += 1
    if new_stretch:
        workload.phase_since = clock.now()
        _next_step(workload)
    else:
        workload.steps.filter(run=workload.run, ended_at=None).update(evidence=facts)
    workload.save(update_fields=PHASE_FIELDS)
    ring(workload)
    return True


def _next_step(workload: Workload) -> None:
    now = workload.phase_since
    workload.steps.filter(ended_at=None).update(ended_at=now)
    Step.objects.create(
        workload=workload,
        run=workload.run,
        phase=workload.phase,
        reason=workload.reason,
        evidence=workload.evidence,
        began_at=now,
        ended_at=now if workload.phase in ENDED else None,
    )


def ring(workload: Workload) -> None:
    """Its page, its owner's list, its tenant's list, and the controller."""
    bells.ring(
        f"workload:{workload.id}",
        f"user:{workload.owner_id}",
        f"tenant:{workload.tenant_id}",
        f"controller:{workload.id}",
    )
