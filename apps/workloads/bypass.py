"""Programs that go around the limits, as the figures tell of them: a notice on the workload for as long as it lasts, and an audit event.

Every second brings figures of everything, so what is open is remembered here, and only news reach the database.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.cluster.specs import Sample
from apps.core import bells
from apps.workloads import notices
from apps.workloads.lease import Fence
from apps.workloads.models import ENDED, Notice, Workload

_AGAIN = timedelta(seconds=10)  # between two updates of a notice whose numbers change all the time
_OVER = timedelta(seconds=5)  # of figures without it


@dataclass(slots=True)
class Open:
    """A notice that holds. `seen` and `told` are times of samples."""

    seen: datetime
    told: datetime
    processes: tuple[str, ...] = ()


@dataclass(slots=True)
class Watch:
    """`open` is None until the notices of an earlier controller were read."""

    open: dict[str, Open] | None = None
    _told: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def news(self, samples: Iterable[Sample]) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
        """What to tell, by workload, and whose notice is over. A claim on several cards is one workload."""
        known = self.open or {}
        seen: dict[str, tuple[datetime, Mapping[str, Any]]] = {}
        heard: dict[str, datetime] = {}
        for sample in samples:
            kind, _, rest = sample.subject.partition(":")
            uid = rest.partition(":")[0]
            if kind != "run":
                continue
            heard[uid] = sample.at
            if sample.bypass is not None:
                seen[uid] = sample.at, _sum(seen[uid][1] if uid in seen else {}, sample.bypass)
        tell = {uid: evidence for uid, (at, evidence) in seen.items() if self._is_news(known, uid, at, evidence)}
        over = [uid for uid, at in heard.items() if uid in known and uid not in seen and at - known[uid].seen > _OVER]
        for uid in over:
            del known[uid]
        self.open = known
        return tell, over

    @staticmethod
    def _is_news(known: dict[str, Open], uid: str, at: datetime, evidence: Mapping[str, Any]) -> bool:
        processes = tuple(evidence.get("processes", ()))
        opened = known.get(uid)
        if opened is None:
            known[uid] = Open(at, at, processes)
            return True
        opened.seen = at
        if at - opened.told < _AGAIN and processes == opened.processes:
            return False
        opened.told, opened.processes = at, processes
        return True


def _sum(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Over the cards of one workload: bytes together, the busiest card, all processes."""
    return {
        "uncounted_bytes": first.get("uncounted_bytes", 0) + second.get("uncounted_bytes", 0),
        "busy_permille": max(first.get("busy_permille", 0), second.get("busy_permille", 0)),
        "processes": sorted({*first.get("processes", ()), *second.get("processes", ())}),
    }


def take(watch: Watch, fence: Fence, samples: Sequence[Sample]) -> None:
    """Of one batch. Writes only where there is something new."""
    if watch.open is None:
        watch.open = {
            str(notice.workload_id): Open(notice.began_at, notice.began_at)
            for notice in Notice.objects.filter(code=notices.BYPASS, ended_at=None)
        }
    tell, over = watch.news(samples)
    if tell or over:
        _record(fence, tell, over)


@transaction.atomic
def _record(fence: Fence, tell: Mapping[str, Mapping[str, Any]], over: Sequence[str]) -> None:
    fence.check()
    rows = Workload.objects.select_for_update(no_key=True).filter(id__in=filter(None, map(_uuid, (*tell, *over))))
    for row in rows.order_by("id"):
        if row.uid in over:
            notices.end(row, notices.BYPASS)
        elif row.phase not in ENDED and notices.tell(row, notices.BYPASS, tell[row.uid]):
            verb, tenant = f"{row.kind}.bypass", row.tenant_id
            audit.record(actor=Actor.system(), verb=verb, target=row, tenant=tenant, after=dict(tell[row.uid]))
    bells.ring("cluster")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
