"""How fast pods were placed and volumes bound in the busiest ten seconds that the cluster's objects still tell of."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from apps.cluster.drivers.kubernetes.diagnosis.looking import Seen, rows
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    claims_of,
    condition,
    key_of,
    made_at,
    meta,
    namespace_of,
    spec,
    time,
    volumes_of,
)

WINDOW = 10  # s
_BINDER = "kube-controller-manager"  # that binds volumes signs so


@dataclass(frozen=True, slots=True)
class Pace:
    """What was done in one window."""

    count: int
    waited: float  # s, the median of those

    @property
    def rate(self) -> float:
        """Per second."""
        return self.count / WINDOW

    @property
    def evidence(self) -> dict[str, Any]:
        return {"per_second": short(self.rate), "pods": self.count, "waited_seconds": round(self.waited)}


def short(rate: float) -> float:
    """One decimal, and none for a whole number."""
    return int(rate) if rate == int(rate) else round(rate, 1)


def windows(spans: Iterable[tuple[datetime, datetime]]) -> list[Pace]:
    """`spans` are since when something could be done, and when it was done, in whole seconds as the API server has them."""
    done = sorted(spans, key=lambda span: span[1])
    found, first = [], 0
    for last, (_, at) in enumerate(done):
        while at - done[first][1] >= timedelta(seconds=WINDOW):
            first += 1
        waited = median((end - since).total_seconds() for since, end in done[first : last + 1])
        found.append(Pace(last + 1 - first, waited))
    return found


def volumes_bound(seen: Seen) -> list[Pace]:
    spans = ((made_at(volume), bound_at(volume)) for volume in rows(seen.volumes))
    return windows((made, bound) for made, bound in spans if made is not None and bound is not None)


def bound_at(volume: Manifest) -> datetime | None:
    """When the volume was there. Nothing tells but who wrote last into which part of the object."""
    if not spec(volume).get("volumeName"):
        return None
    writers = meta(volume).get("managedFields") or ()
    return next(
        (time(w.get("time")) for w in writers if w.get("manager") == _BINDER and not w.get("subresource")), None
    )


def pods_placed(seen: Seen) -> list[Pace]:
    ready = Ready(seen)
    spans = ((ready.at(pod), placed_at(pod)) for pod in rows(seen.pods))
    return windows((since, placed) for since, placed in spans if since is not None and placed is not None)


class Ready:
    """Since when the scheduler could place a pod: it waits for claims and volumes, which others make."""

    def __init__(self, seen: Seen) -> None:
        self._made = {key_of(one): made_at(one) for one in rows(seen.claims)}
        self._bound = {key_of(one): bound_at(one) for one in rows(seen.volumes)}

    def at(self, pod: Manifest) -> datetime | None:
        """None for a pod without a claim, and where something is not there or not known."""
        where, named = namespace_of(pod), claims_of(pod)
        claims = [self._made.get((where, name)) for name in named]
        volumes = [self._bound.get((where, name)) for name in volumes_of(pod)]
        needed = [made_at(pod), *claims, *volumes]
        known = [one for one in needed if one is not None]
        return max(known) if named and len(known) == len(needed) else None


def placed_at(pod: Manifest) -> datetime | None:
    placed = condition(pod, "PodScheduled")
    return time(placed.get("lastTransitionTime")) if placed.get("status") == "True" else None
