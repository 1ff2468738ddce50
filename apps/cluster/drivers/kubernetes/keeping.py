"""What a started driver does on the side, without anybody waiting for it: marks what answers, removes what ended runs have left.

Nothing here is remembered: what could not be done, or was not because the controller was killed, is found again by looking.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.kinds import CLAIMS, CLASSES, PODS, SECRETS
from apps.cluster.drivers.kubernetes.making import Maker
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    condition,
    container,
    is_deleting,
    is_terminal,
    made_at,
    name_of,
    namespace_of,
    run_of,
    time,
    workload_of,
)
from apps.cluster.drivers.kubernetes.settings import Rules, Timing
from apps.cluster.drivers.kubernetes.world import World
from apps.core import clock
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

_AGAIN = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # s between attempts; the last one from then on
_AT_ONCE = 8  # requests of a sweep; starts need the API server more

Sleep = Callable[[float], Awaitable[None]]


class Keeper:
    def __init__(
        self, api: Api, rules: Rules, timing: Timing, world: World, maker: Maker, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._api, self._rules, self._timing = api, rules, timing
        self._world, self._maker, self._sleep = world, maker, sleep
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- Marks -----------------------------------------------------------------------------------------------------------
    async def mark_ready(self, pod: Manifest) -> None:
        """So that a later driver, and any other process, knows that it answered. Until then they ask it themselves, or say that it starts."""
        await self._sleep(self._timing.mark)
        where, name = namespace_of(pod), name_of(pod)
        patch = {"metadata": {"annotations": {names.READY: clock.now().isoformat()}}}
        for pause in _pauses():
            if self._world.pods.get(workload_of(pod), {}).get((where, name)) is None:
                return
            try:
                await self._api.merge(PODS, where, name, patch)
                return
            except ApiError as error:
                if error.status in (404, 409, 422):
                    return
                log.warning("mark_failed", pod=name, problem=str(error))
            except Unavailable as problem:
                log.info("mark_failed", pod=name, problem=str(problem))
            await self._sleep(pause)

    # --- Waking ----------------------------------------------------------------------------------------------------------
    def wake_scheduler(self) -> None:
        """It has overlooked room (waiting.py). Where the class is missing, or may not be changed, it looks again by itself after minutes."""
        patch = {"metadata": {"annotations": {names.WOKEN: clock.now().isoformat()}}}
        log.info("scheduler_woken", waiting_class=names.WAKING)
        self.begin(self._quietly(self._api.merge(CLASSES, "", names.WAKING, patch), names.WAKING), "wake scheduler")

    # --- Left-overs ------------------------------------------------------------------------------------------------------
    async def tidy(self, pod: Manifest) -> None:
        """Its pod is no more, so nothing needs its secret and its claim."""
        uid = workload_of(pod)
        last = self._world.newest(uid) is None
        await self._quietly(self._maker.tidy(namespace_of(pod), uid, run_of(pod), last=last), name_of(pod))

    async def sweep(self) -> None:
        """Again and again, seldom: what no pod needs any more and nobody was there to remove."""
        while True:
            try:
                await self._sweep()
            except (ApiError, Unavailable) as problem:
                log.info("sweep_failed", problem=str(problem))
            await self._sleep(self._timing.tidy)

    async def _sweep(self) -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def remove(work: Awaitable[None], what: str) -> None:
            async with places:
                await self._quietly(work, what)

        finished = [pod for pod in self._world.all_pods() if self._has_had_its_time(pod)]
        resources = (SECRETS, CLAIMS) if self._world.claims_served else (SECRETS,)
        left = [(resource, thing) for resource in resources for thing in await self._left(resource)]
        await asyncio.gather(
            *(remove(self._maker.remove_pod(pod, 0), name_of(pod)) for pod in finished),
            *(remove(self._api.delete(r, namespace_of(thing), name_of(thing)), name_of(thing)) for r, thing in left),
        )

    async def _left(self, resource: Any) -> list[Manifest]:
        """Of runs without a pod, and not just being made. Namespace by namespace: elsewhere the portal may not read secrets."""
        mine = {"labelSelector": names.selector(names.portal_labels(self._rules.portal))}
        found: list[Manifest] = []
        for where in list(self._world.namespaces):
            found += await self._api.find(resource, where, params=mine, metadata_only=True)
        return [thing for thing in found if self._is_left(thing)]

    def _is_left(self, thing: Manifest) -> bool:
        made, uid = made_at(thing), workload_of(thing)
        old = made is not None and clock.now() - made > self._timing.left_over
        needed = any(run_of(pod) == run_of(thing) for pod in self._world.pods_of(uid))
        return bool(old and uid and not needed and not is_deleting(thing))

    def _has_had_its_time(self, pod: Manifest) -> bool:
        ended = finished_at(pod)
        return is_terminal(pod) and ended is not None and clock.now() - ended > self._timing.keep_finished

    async def _quietly(self, work: Awaitable[object], what: str) -> None:
        try:
            await work
        except (ApiError, Unavailable) as problem:
            log.info("left_for_later", object=what, problem=str(problem))


def finished_at(pod: Manifest) -> Any:
    ended = (container(pod).get("state") or {}).get("terminated") or {}
    return time(ended.get("finishedAt")) or time(condition(pod, "Ready").get("lastTransitionTime")) or made_at(pod)


def _pauses() -> Any:
    yield from _AGAIN
    while True:
        yield _AGAIN[-1]
