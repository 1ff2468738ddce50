"""Whether of those that wait the oldest goes first.

kube-scheduler tries first whose back-off ends first, and the back-off of a pod doubles with each try, from 1 s to 10 s: where room comes
free, whoever has waited long has been tried often and is passed by the younger ones. With `podMaxBackoffSeconds: 1` all wait alike, and
the oldest goes first. The setting stands in a file that nobody tells, so it is judged by the pods that waited.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter

from apps.cluster.diagnosis import Area, Finding, Level
from apps.cluster.drivers.kubernetes.diagnosis.limits import SCHEDULER
from apps.cluster.drivers.kubernetes.diagnosis.looking import Seen, rows
from apps.cluster.drivers.kubernetes.diagnosis.pace import Ready, placed_at
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    claims_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec,
)

_MOMENT = timedelta(seconds=5)  # that a place takes; who got one so much later was passed
_ENOUGH = 3  # that waited behind an older one and stayed there: then it is no chance
_PLACING = ("nodeSelector", "affinity", "tolerations", "priority", "schedulingGates")
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """One pod in the queue. `shape` is all by which the scheduler could prefer another one."""

    shape: str
    since: datetime
    placed: datetime  # _NEVER: waits still
    name: str = ""


def judged(seen: Seen) -> list[Finding]:
    kept, passed = in_order(_turns(seen))
    if passed is not None:
        older, younger = passed
        evidence = {"older": older.name, "younger": younger.name}
        return [Finding(Area.LIMITS, "order_passed", Level.ATTENTION, evidence, SCHEDULER.command)]
    if kept >= _ENOUGH:
        return [Finding(Area.LIMITS, "order_kept", Level.GOOD, {"pods": kept})]
    return [Finding(Area.LIMITS, "order_unknown", Level.UNKNOWN, {}, SCHEDULER.command)]


def in_order(turns: Iterable[Turn]) -> tuple[int, tuple[Turn, Turn] | None]:
    """How many came while an older one of their shape waited and got their place after it, or not yet; and some pair, older and younger,
    where it was the other way round."""
    kept, passed = 0, None
    by_shape = sorted(turns, key=attrgetter("shape", "since"))
    for _, alike in groupby(by_shape, attrgetter("shape")):
        last: Turn | None = None  # of the older ones, whose place came last
        for _, together in groupby(alike, attrgetter("since")):
            arrived = list(together)  # none of them is older than another
            for turn in arrived:
                if last is not None and turn.since < last.placed - _MOMENT:
                    if turn.placed < last.placed - _MOMENT:
                        passed = (last, turn)
                    elif last.placed < _NEVER:
                        kept += 1
            last = max((*arrived, *((last,) if last else ())), key=attrgetter("placed"))
    return kept, passed


def _turns(seen: Seen) -> Iterator[Turn]:
    ready, claims = Ready(seen), {key_of(one): one for one in rows(seen.claims)}
    for pod in rows(seen.pods):
        since, where = ready.at(pod), namespace_of(pod)
        if since is not None and not is_deleting(pod):
            named = [spec(claims[where, name]) for name in claims_of(pod)]
            yield Turn(_shape(pod, named), since, placed_at(pod) or _NEVER, f"{where}/{name_of(pod)}")


def _shape(pod: Manifest, claims: list[Manifest]) -> str:
    asked = [container.get("resources") for container in spec(pod).get("containers") or ()]
    return json.dumps([claims, asked, *(spec(pod).get(part) for part in _PLACING)], sort_keys=True)
