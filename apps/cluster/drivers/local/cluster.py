"""The local driver: runs are processes of this machine, GPU shares come from the node agent on it.

A started driver (one per state folder, the controller's) makes and ends runs. One that was not started only reads, in any process.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import structlog

from apps.cluster.drivers.local import queue, reading, resizing
from apps.cluster.drivers.local.accounts import FIRST, Accounts
from apps.cluster.drivers.local.agent import Agent
from apps.cluster.drivers.local.feed import Feed
from apps.cluster.drivers.local.folders import Folders
from apps.cluster.drivers.local.link import Link
from apps.cluster.drivers.local.records import Record, Store
from apps.cluster.drivers.local.run import Run
from apps.cluster.drivers.local.runner import groups
from apps.cluster.drivers.local.site import Site, machine_ram
from apps.cluster.specs import Endpoint, Inventory, LogChunk, Observation, RunSpec, RunState, Sample
from apps.core import clock
from apps.core.errors import Conflict, Unavailable
from apps.core.share import GpuShare

log = structlog.get_logger(__name__)

_KEPT = timedelta(days=7)  # of a run that has ended, for its log


class LocalCluster:
    """`apps.cluster.protocol.Cluster` on one machine. `first_account`: number of the first account given out, where we are root."""

    def __init__(self, state_dir: Path, agent_socket: Path, environments: Path, *, first_account: int = FIRST) -> None:
        folders = Folders(Path(state_dir))
        agent = Agent(Path(agent_socket))
        self._feed = Feed()
        self._runs: dict[str, Run] = {}
        self._lock: int | None = None
        self._following: asyncio.Task[None] | None = None
        self._closing = False
        self._ram = machine_ram()
        self._site = Site(
            store=Store(folders.runs),
            folders=folders,
            accounts=Accounts(folders.state, first_account),
            environments=Path(environments),
            agent=agent,
            link=Link(agent, os.uname().nodename, self._on_cards),
            tell=self._tell,
        )

    # --- Life of the driver ----------------------------------------------------------------------------------------------
    async def start(self) -> None:
        self._site.folders.prepare()
        self._lock = self._take_lock()
        self._site.nursery.start()
        self._site.group_bases = groups.bases(reading.key(self._site.folders.state))
        for record in list(self._site.store.all()):
            self._adopt(record)
        self._following = asyncio.create_task(self._site.link.follow(), name="node agent")
        self._place()

    def _take_lock(self) -> int:
        path = self._site.folders.runs / "driver.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise Unavailable(
                f"Another controller already looks after the runs in {path.parent}.",
                hint="Stop it first; two would get into each other's way.",
            ) from None
        return fd

    def _adopt(self, record: Record) -> None:
        if record.state is RunState.EXITED and clock.now() - record.since > _KEPT:
            self._site.store.forget(record.uid)
            return
        run = self._runs[record.uid] = Run(record, self._site, self._on_gone)
        if record.state is RunState.EXITED:
            if record.successor is not None:
                self._admit(record.successor)
        elif record.state is not RunState.WAITING:
            run.adopt()

    async def close(self) -> None:
        self._closing = True
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(*(run.let_go() for run in self._runs.values()))
        self._feed.close()
        self._site.nursery.close()
        groups.remove_empty(self._site.group_bases)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def stop_everything(self, grace_seconds: int) -> None:
        """End all runs, as the whole portal goes down; returns when no process is left. Those that wait keep their turn."""
        self._closing = True
        ending = [run for run in self._runs.values() if run.record.state not in (RunState.WAITING, RunState.EXITED)]
        for run in ending:
            run.stop(grace_seconds, "host_shutdown")
        await asyncio.gather(*(run.gone.wait() for run in ending))

    # --- What the controller asks ----------------------------------------------------------------------------------------
    async def apply(self, spec: RunSpec) -> Observation:
        self._must_be_started()
        known = self._runs.get(spec.uid)
        if known is None or (known.gone.is_set() and known.record.spec.run < spec.run):
            known = self._admit(spec)
            self._place()
        elif known.record.spec.run < spec.run:
            known.record.successor = spec
            self._site.store.save(known.record)
            known.stop(known.record.spec.grace_seconds)
        return self._seen(known.record)

    async def delete(self, uid: str, *, grace_seconds: int) -> Observation:
        self._must_be_started()
        run = self._runs.get(uid)
        if run is None:
            return reading.absent(uid)
        if run.record.successor is not None:
            run.record.successor = None
            self._site.store.save(run.record)
        run.stop(grace_seconds)
        return self._seen(run.record)

    async def resize(self, uid: str, run: int, share: GpuShare) -> GpuShare:
        self._must_be_started()
        known = self._runs.get(uid)
        kept = await resizing.resize(known.record if known else None, run, share, self._site)
        await self._site.link.refresh()  # what has become free is seen at once
        return kept

    async def get(self, uid: str) -> Observation:
        run = self._runs.get(uid)
        return self._seen(run.record) if run else reading.observation(self._site, uid)

    async def list(self) -> Sequence[Observation]:
        if self._lock is None:
            return [reading.observation(self._site, record.uid) for record in self._site.store.all()]
        return [self._seen(run.record) for run in self._runs.values()]

    async def specs(self) -> Sequence[RunSpec]:
        self._must_be_started()
        return [run.record.spec for run in self._runs.values() if run.record.state is not RunState.EXITED]

    def observe(self) -> AsyncIterator[Observation]:
        return self._feed.subscribe()

    async def logs(self, uid: str, *, offset: int = 0, limit: int = 65536) -> LogChunk:
        return reading.logs(self._site, uid, offset, limit)

    async def inventory(self) -> Inventory:
        return await reading.inventory(self._site, self._ram)

    def samples(self) -> AsyncIterator[Sequence[Sample]]:
        return reading.samples(self._site)

    async def dial(self, uid: str, port: str) -> Endpoint:
        return reading.endpoint(self._site, uid, port)

    async def remove_volume(self, name: str) -> None:
        in_use = [r.record.uid for r in self._runs.values() if not r.gone.is_set() and reading.uses(r.record, name)]
        if in_use:
            raise Conflict(f"Volume {name} is in use by {in_use[0]}.", hint="Stop it first.")
        await asyncio.to_thread(self._site.folders.remove_volume, name)

    # --- Inside ----------------------------------------------------------------------------------------------------------
    def _must_be_started(self) -> None:
        if self._lock is None or self._closing:
            raise Unavailable("This process does not look after the runs; the controller does.")

    def _seen(self, record: Record) -> Observation:
        return record.observation(self._site.node, clock.now())

    def _tell(self, record: Record) -> None:
        self._feed.publish(record.observation(self._site.node, record.since))

    def _admit(self, spec: RunSpec) -> Run:
        run = self._runs[spec.uid] = Run(self._site.store.create(spec), self._site, self._on_gone)
        return run

    def _place(self) -> None:
        """Give places to those that wait, as far as there are any; the others learn what they wait for."""
        records = [run.record for run in self._runs.values()]
        for record in [] if self._closing else queue.turns(records):
            decision = queue.decide(record, self._site.link.cards, records, self._ram)
            run = self._runs[record.uid]
            if isinstance(decision, queue.Waits):
                run.note(RunState.WAITING, decision.reason, decision.evidence)
            else:
                record.grants, record.state = decision.grants, RunState.PREPARING
                self._site.store.save(record)
                run.begin()

    async def _on_cards(self) -> None:
        await self._site.sweep()
        self._place()

    async def _on_gone(self, run: Run) -> None:
        if run.record.successor is not None and not self._closing:
            self._admit(run.record.successor)
        self._place()
