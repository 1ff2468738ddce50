"""What people should know about a run for as long as it holds. Callers are in a transaction; the controller's checks its lease."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.core import clock
from apps.workloads.models import Notice, Workload
from apps.workloads.moves import plain, ring

RESIZE_REFUSED = "resize_refused"  # the cluster had no room after all
BYPASS = "bypass"  # its programs go around the limits


def open_of(workload_ids: Iterable[UUID]) -> QuerySet[Notice]:
    return Notice.objects.filter(workload_id__in=list(workload_ids), ended_at=None)


def tell(workload: Workload, code: str, evidence: Mapping[str, Any]) -> bool:
    """Open it, or bring the open one up to date. Returns whether it is new."""
    facts = plain(evidence)
    known = open_of([workload.id]).filter(code=code).first()
    if known is not None and known.evidence == facts:
        return False
    if known is None:
        Notice.objects.create(workload=workload, run=workload.run, code=code, evidence=facts)
    else:
        known.evidence = facts
        known.save(update_fields=["evidence"])
    _show(workload)
    return known is None


def end(workload: Workload, *codes: str) -> bool:
    """Those of these codes, or all. Returns whether there was one."""
    found = open_of([workload.id])
    ended = (found.filter(code__in=codes) if codes else found).update(ended_at=clock.now())
    if ended:
        _show(workload)
    return bool(ended)


def _show(workload: Workload) -> None:
    workload.version += 1
    workload.save(update_fields=["version"])
    ring(workload, by_controller=True)
