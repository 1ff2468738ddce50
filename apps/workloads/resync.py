"""Looks at everything at once, in case an event was lost: which rows are not at rest, and where rows and cluster differ."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.cluster.specs import Observation, RunState
from apps.quotas import ledger
from apps.workloads.judge import judge
from apps.workloads.lease import Fence
from apps.workloads.models import ENDED, Desired, Phase, Workload
from apps.workloads.moves import plain
from apps.workloads.states import transition

_AT_REST = (Phase.DRAFT, Phase.QUEUED, *ENDED)
_ALIVE = (RunState.WAITING, RunState.PREPARING, RunState.STARTING, RunState.READY, RunState.STOPPING)
_BATCH = 500  # ids per statement: below SQLite's limit on variables


def unsettled() -> list[UUID]:
    """Every row for which `reconcile` may have something to do."""
    live = Q(phase__in=[phase for phase in Phase if phase not in _AT_REST])
    to_remove = Q(phase__in=ENDED, desired=Desired.DELETED)
    owing = Q(id__in=ledger.held().values("workload_id"))
    rows = Workload.objects.filter(deleted_at=None).filter(live | to_remove | owing)
    return list(rows.order_by("created_at").values_list("id", flat=True))


@transaction.atomic
def compare(fence: Fence, seen: Sequence[Observation]) -> tuple[list[UUID], list[UUID]]:
    """Note what was seen and is as it should be; return the rows that need a look, and those that have ended and seem to run.

    A run without any row is left alone: it may belong to a database that will be restored.
    """
    fence.check()
    by_uid = {observation.uid: observation for observation in seen}
    differ: list[UUID] = []
    as_expected: list[UUID] = []
    for row in Workload.objects.filter(id__in=unsettled()):
        observation = by_uid.get(row.uid)
        expected = observation is not None and observation.state is not RunState.UNKNOWN and _calm(row, observation)
        (as_expected if expected else differ).append(row.id)
    _mark_seen(as_expected, seen)
    return differ, _orphans(seen)


def _calm(row: Workload, observation: Observation) -> bool:
    """Whether reconciling the row would change nothing."""
    if row.desired != Desired.RUNNING or row.phase == Phase.ADMITTED or row.resize_from is not None:
        return False
    verdict = judge(row, observation)
    if verdict.answers or verdict.settle:
        return False
    if verdict.event is None:
        return True
    phase = transition(row.phase, verdict.event)
    expected = (phase, verdict.reason, plain(verdict.evidence), list(observation.cards))
    return (row.phase, row.reason, row.evidence, row.cards) == expected


def _mark_seen(rows: Sequence[UUID], seen: Iterable[Observation]) -> None:
    at = max((observation.observed_at for observation in seen), default=None)
    for start in range(0, len(rows), _BATCH):
        Workload.objects.filter(id__in=rows[start : start + _BATCH]).update(observed_at=at)


def _orphans(seen: Iterable[Observation]) -> list[UUID]:
    alive = {observation.uid: observation for observation in seen if observation.state in _ALIVE}
    ended = Workload.objects.filter(phase__in=ENDED, id__in=[uid for uid in alive if _is_uuid(uid)])
    return [row.id for row in ended if alive[row.uid].run <= row.run]


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
