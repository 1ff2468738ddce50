"""Visits through the gateway: one at a time per workload, repeated with growing pauses while the gateway does not let them through.

The bell `gateway` (rung when it is back) cuts the pauses short. A visit waits for its answer; nothing polls.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from apps.workloads import reach
from apps.workloads.lease import LeaseLost

USUAL = 0.5  # seconds that a visit takes at most as a rule; only a longer one is worth a word
FIRST_PAUSE = 1.0  # seconds after the first failed visit, doubled after each further one
LONGEST_PAUSE = 30.0
_log = logging.getLogger(__name__)


class Visits:
    def __init__(
        self,
        reached: Callable[[UUID, int], Awaitable[None]],
        unreached: Callable[[UUID, int, str], Awaitable[None]],
        *,
        again: Callable[[UUID], None],
    ) -> None:
        self._reached = reached
        self._unreached = unreached
        self._again = again  # look at this workload once more; if it still answers, `begin` is called
        self._tasks: dict[UUID, asyncio.Task[bool]] = {}
        self._pauses: dict[UUID, asyncio.TimerHandle] = {}
        self._failures: dict[UUID, int] = {}

    def begin(self, workload_id: UUID, slug: str, run: int) -> None:
        """Start a visit, unless one is under way or a pause after a failed one is."""
        if workload_id not in self._tasks and workload_id not in self._pauses:
            visit = asyncio.get_running_loop().create_task(self._visit(workload_id, slug, run))
            self._tasks[workload_id] = visit

    async def soon(self, workload_id: UUID, slug: str, run: int) -> bool:
        """Begin one, and wait for its end for as long as it usually takes. Whether it got there, and that is written down."""
        self.begin(workload_id, slug, run)
        visit = self._tasks.get(workload_id)
        if visit is None:
            return False
        ended, _ = await asyncio.wait((visit,), timeout=USUAL)
        return bool(ended) and visit.result()

    def try_now(self) -> None:
        for workload_id, pause in list(self._pauses.items()):
            pause.cancel()
            self._resume(workload_id)

    async def close(self) -> None:
        for pause in self._pauses.values():
            pause.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _visit(self, workload_id: UUID, slug: str, run: int) -> bool:
        try:
            await reach.through_gateway(slug)
            await self._reached(workload_id, run)
            self._failures.pop(workload_id, None)
            return True
        except LeaseLost:
            return False  # whoever keeps the lease notices and ends
        except Exception as error:
            await self._failed(workload_id, slug, run, error)
            return False
        finally:
            del self._tasks[workload_id]

    async def _failed(self, workload_id: UUID, slug: str, run: int, error: Exception) -> None:
        failures = self._failures[workload_id] = self._failures.get(workload_id, 0) + 1
        pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
        _log.warning("%s does not answer through the gateway: %s; again in %.0f s", slug, error, pause)
        self._pauses[workload_id] = asyncio.get_running_loop().call_later(pause, self._resume, workload_id)
        try:
            await self._unreached(workload_id, run, str(error))
        except Exception as problem:
            _log.warning("could not note it: %s", problem)

    def _resume(self, workload_id: UUID) -> None:
        del self._pauses[workload_id]
        self._again(workload_id)
