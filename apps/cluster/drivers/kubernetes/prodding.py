"""Makes the kubelet look at a pod again whose claim it could not prepare, or whose volume it was not allowed to see.

The first happens when the node's agent had just been killed or had not yet come up. By itself the kubelet looks again only after its
`syncFrequency`, 60 to 90 s: it does not take a claim that could not be prepared for a failure. The second happens on a busy control plane:
the API server binds the pod to the node, and some moments later its authorizer knows what the node may read for it; by itself the kubelet
looks again after 10 to 15 s. It looks at once when an annotation changes. Each of its complaints is an event; each is answered once, after
a pause that grows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import structlog

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.kinds import PODS
from apps.cluster.drivers.kubernetes.objects import Manifest, id_of, name_of, namespace_of, status
from apps.core import clock
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

COMPLAINT = "FailedPrepareDynamicResources"
_MOUNT, _TOO_EARLY = "FailedMount", "no relationship found between node"

Begin = Callable[[Coroutine[Any, Any, None], str], object]


class Prodder:
    """`pauses` in seconds; the last one from then on."""

    def __init__(
        self,
        api: Api,
        begin: Begin,
        pauses: tuple[float, ...],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._begin, self._pauses, self._sleep = api, begin, pauses, sleep
        self._prods: dict[str, int] = {}  # by pod's id: how often
        self._due: set[str] = set()  # pods' ids

    def complained(self, event: Manifest, pods: Iterable[Manifest]) -> None:
        """`pods` are those of ours that the event may be about."""
        about = (event.get("involvedObject") or {}).get("uid")
        for pod in pods if _is_complaint(event) else ():
            if id_of(pod) == about and _has_not_begun(pod) and id_of(pod) not in self._due:
                self._due.add(id_of(pod))
                self._begin(self._prod(pod), f"prod {name_of(pod)}")

    def gone(self, pod: Manifest) -> None:
        self._prods.pop(id_of(pod), None)

    async def _prod(self, pod: Manifest) -> None:
        before = self._prods.get(id_of(pod), 0)
        self._prods[id_of(pod)] = before + 1
        try:
            await self._sleep(self._pauses[min(before, len(self._pauses) - 1)])
            patch = {"metadata": {"uid": id_of(pod), "annotations": {names.PRODDED: clock.now().isoformat()}}}
            await self._api.merge(PODS, namespace_of(pod), name_of(pod), patch)
        except (ApiError, Unavailable) as problem:  # the kubelet looks by itself, later
            log.info("prod_failed", pod=name_of(pod), problem=str(problem))
        finally:
            self._due.discard(id_of(pod))


def _is_complaint(event: Manifest) -> bool:
    reason = event.get("reason")
    return reason == COMPLAINT or (reason == _MOUNT and _TOO_EARLY in str(event.get("message")))


def _has_not_begun(pod: Manifest) -> bool:
    return bool(status(pod).get("phase", "Pending") == "Pending")
