"""The controller: wires bells, observations and timers to `reconcile`. One is active at a time (`lease`).

Everything is woken by an event: a bell, an observation of the driver, a row that is due. The only regular rounds are the lease,
the heartbeat (which looks at everything once, in case an event was lost) and the upkeep of samples; no start waits for them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from uuid import UUID

from apps.accounts import services as accounts
from apps.cluster.protocol import Cluster, Healthy
from apps.cluster.services import Mirror, keep_health
from apps.cluster.specs import Observation
from apps.core import bells, clock
from apps.core.errors import Unavailable
from apps.telemetry import services as telemetry
from apps.workloads import adoption, bypass, lease, reconcile, resync, timers
from apps.workloads.queue import admit_all
from apps.workloads.threads import DatabaseThread, keep_short
from apps.workloads.visits import Visits
from apps.workloads.workqueue import WorkQueue

HEARTBEAT_SECONDS = 15
UPKEEP_SECONDS = 10
UPKEEP_ROUNDS_AN_HOUR = 360
GATHER_SECONDS = 0.2  # changes of cards within this time are mirrored at once
REST_SECONDS = 1.0  # between two mirrorings; starts, of which the changes come, need the database more
REST = 4  # times as long as the mirroring took, where that is longer: with thousands of cards it takes a second
_log = logging.getLogger(__name__)


class Controller:
    def __init__(self, cluster: Cluster, holder: str) -> None:
        self._cluster = cluster
        self._fence = lease.Fence(holder)
        self._rows = DatabaseThread("rows")
        self._upkeep_rows = DatabaseThread("upkeep")  # samples and inventory: their writes must not delay a start
        self._queue: WorkQueue[UUID] = WorkQueue(self._reconcile, expected=(Unavailable,), fatal=(lease.LeaseLost,))
        self._admission = asyncio.Event()
        self._timer = asyncio.Event()
        self._cards = asyncio.Event()
        self._everything = asyncio.Event()
        self._mirror = Mirror()
        self._bypass = bypass.Watch()
        self._suspects: set[UUID] = set()  # have ended, and were seen to run
        self._visits = Visits(self._reached, self._unreached, again=self._queue.add)
        self.working = asyncio.Event()  # set once everything that was there has been adopted

    async def run(self) -> None:
        """Until cancelled; raises an ExceptionGroup with LeaseLost when another controller has taken over."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_lease())
                await self._again_and_again(self._cluster.start, once=True)
                await self._again_and_again(self._adopt, once=True)
                tasks.create_task(self._queue.run())
                await asyncio.sleep(0)  # the queue takes keys from here on
                for loop in self._loops():
                    tasks.create_task(self._again_and_again(loop))
        finally:
            await self._visits.close()
            await self._cluster.close()
            await self._rows.close()
            await self._upkeep_rows.close()

    def _loops(self) -> Sequence[Callable[[], Awaitable[None]]]:
        wakers = (self._bells, self._observe, self._look_at_everything, self._timers, self._heartbeat)
        return (*wakers, self._admit, self._inventory, self._samples, self._upkeep)

    async def _again_and_again(self, loop: Callable[[], Awaitable[None]], *, once: bool = False) -> None:
        """Run `loop`; after a failure again, with growing pauses. A lost lease is the end."""
        pause = 0.2
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await loop()
                if once:
                    return
            except lease.LeaseLost:
                raise
            except Exception as error:
                trace = None if isinstance(error, Unavailable) else error
                _log.warning("%s: %s; again in %.1f s", loop.__name__, error, pause, exc_info=trace)
            if asyncio.get_running_loop().time() - began > 60:
                pause = 0.2
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10.0)

    async def _adopt(self) -> None:
        """A database that knows of no workload takes in what the cluster runs."""
        if await self._rows(adoption.is_fresh):
            for spec in await self._cluster.specs():
                adopted = await self._rows(adoption.adopt, self._fence, spec)
                if adopted is not None:
                    _log.warning("adopted %s of %s from the cluster", adopted.slug, adopted.owner.username)

    # --- What wakes it ---------------------------------------------------------------------------------------------------
    async def _bells(self) -> None:
        async for topics in bells.listen():
            for topic in topics:
                if topic.startswith("controller:"):
                    self._queue.add(UUID(topic.removeprefix("controller:")))
            if bells.ALL in topics:
                self._everything.set()
            if topics & {"gateway", bells.ALL}:
                self._visits.try_now()
            if topics & {"controller", bells.ALL}:  # limits, the queue or a time limit changed
                self._admission.set()
                self._timer.set()

    async def _observe(self) -> None:
        self._everything.set()  # what happened before, and while nobody observed
        async for seen in self._cluster.observe():
            self._wake(seen)
            self._cards.set()

    def _wake(self, seen: Observation) -> None:
        """An observation is only a hint where to look: what counts is read again, in order, by `reconcile`."""
        try:
            self._queue.add(UUID(seen.uid))
        except ValueError:
            _log.info("the cluster runs %s, which is not of this portal", seen.uid)

    async def _look_at_everything(self) -> None:
        while True:
            await self._everything.wait()
            self._everything.clear()
            for workload_id in await self._rows(resync.unsettled):
                self._queue.add(workload_id)
            self.working.set()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self.look_around()

    def retry_now(self) -> None:
        """Something that was missing is back: what failed for want of it is tried at once."""
        self._queue.retry_now()

    async def look_around(self) -> None:
        """Compare all rows with all runs once, in case an event was lost."""
        seen = await self._cluster.list()
        differ, orphans = await self._rows(resync.compare, self._fence, seen)
        self._suspects.update(orphans)
        self._mirror.forget()
        for workload_id in (*differ, *orphans):
            self._queue.add(workload_id)
        for event in (self._cards, self._admission, self._timer):
            event.set()

    # --- What it does ----------------------------------------------------------------------------------------------------
    async def _reconcile(self, workload_id: UUID) -> None:
        suspect = workload_id in self._suspects
        self._suspects.discard(workload_id)
        done = await reconcile.reconcile(
            self._cluster, self._rows, self._fence, workload_id, suspect=suspect, visit=self._visits.soon
        )
        if done.moved:
            self._cards.set()
        if done.settled:
            self._admission.set()
        if done.answers is not None:
            self._visits.begin(workload_id, *done.answers)
        if done.again:
            self._queue.add(workload_id)

    async def _reached(self, workload_id: UUID, run: int) -> None:
        await self._rows(reconcile.record_reached, self._fence, workload_id, run)
        self._timer.set()

    async def _unreached(self, workload_id: UUID, run: int, problem: str) -> None:
        await self._rows(reconcile.record_unreached, self._fence, workload_id, run, problem)

    async def _admit(self) -> None:
        while True:
            await self._admission.wait()
            self._admission.clear()
            for workload_id in await self._rows(admit_all):
                self._queue.add(workload_id)

    async def _timers(self) -> None:
        while True:
            self._timer.clear()
            for workload_id in await self._rows(timers.handle_due):
                self._queue.add(workload_id)
            due = await self._rows(timers.next_due)
            wait = None if due is None else max((due - clock.now()).total_seconds(), 0.05)
            try:
                async with asyncio.timeout(wait):
                    await self._timer.wait()
            except TimeoutError:
                continue

    async def _inventory(self) -> None:
        self._cards.set()
        while True:
            await self._cards.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._cards.clear()
            began = asyncio.get_running_loop().time()
            await self._upkeep_rows(self._mirror.show, await self._cluster.inventory())
            took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(REST_SECONDS, took * REST))

    async def _samples(self) -> None:
        self.retry_now()  # after a gap of the agent, what failed for want of it can go on
        async for batch in self._cluster.samples():
            await self._upkeep_rows(telemetry.ingest, batch)
            await self._upkeep_rows(bypass.take, self._bypass, self._fence, batch)

    async def _upkeep(self) -> None:
        for round_number in count():
            if isinstance(self._cluster, Healthy):
                await self._upkeep_rows(keep_health, self._cluster.health())
            await self._upkeep_rows(telemetry.roll_up, clock.now())
            await self._upkeep_rows(keep_short)
            if round_number % UPKEEP_ROUNDS_AN_HOUR == 0:
                await self._upkeep_rows(accounts.forget_expired)
            await asyncio.sleep(UPKEEP_SECONDS)

    async def _keep_lease(self) -> None:
        while True:
            await self._upkeep_rows(lease.renew, self._fence.holder)
            await asyncio.sleep(lease.RENEW_SECONDS)
