"""Rows whose time has come: the warning before a time limit, then the limit. The database knows when; nothing is kept in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from apps.core import clock
from apps.workloads.models import ENDED, Desired, Workload
from apps.workloads.moves import ring
from apps.workloads.services import expire


def next_due() -> datetime | None:
    rows = Workload.objects.exclude(next_due_at=None).order_by("next_due_at")
    return rows.values_list("next_due_at", flat=True).first()


def handle_due() -> Sequence[UUID]:
    """Do everything that is due, each in its own transaction. Returns the workloads that were stopped."""
    due = list(
        Workload.objects.filter(next_due_at__lte=clock.now()).order_by("next_due_at").values_list("id", flat=True)
    )
    return [workload_id for workload_id in due if _handle(workload_id)]


def _handle(workload_id: UUID) -> bool:
    if expire(workload_id):
        return True
    row = Workload.objects.get(id=workload_id)
    running = row.desired == Desired.RUNNING and row.phase not in ENDED
    # What was read may have been extended meanwhile: the update only strikes the very time that was handled.
    later = row.expires_at if running and row.expires_at and row.expires_at > clock.now() else None
    if Workload.objects.filter(id=workload_id, next_due_at=row.next_due_at).update(next_due_at=later) and running:
        ring(row, by_controller=True)  # the pages begin to warn
    return False
