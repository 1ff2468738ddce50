"""One run, from its place on a card to the last of its processes.

Steps are written to the record before they are announced. All waiting is on descriptors and events; nothing is asked twice.
Must not place runs: that is the cluster's, which sees all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import structlog

from apps.cluster.drivers.local import ends, launch, probe
from apps.cluster.drivers.local.launch import Launch
from apps.cluster.drivers.local.liveness import Runner
from apps.cluster.drivers.local.prepare import NotStarted, Prepared, prepare
from apps.cluster.drivers.local.records import Record
from apps.cluster.drivers.local.runner import groups, journal, processes
from apps.cluster.drivers.local.site import Site
from apps.cluster.specs import RunState
from apps.core import clock

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

TRIES = 5  # runners that may go before they have started anything
LOOK_AGAIN = 5.0  # s after an unexpected failure of the driver itself
SLOW = 20.0  # s without an answer, after which the page says that this is unusual


class Run:
    def __init__(self, record: Record, site: Site, on_gone: Callable[["Run"], Awaitable[None]]) -> None:
        self.record = record
        self.gone = asyncio.Event()
        self._site = site
        self._on_gone = on_gone
        self._folder = site.store.folder(record.uid)
        self._log = site.store.log(record)
        self._stop = asyncio.Event()
        self._runner: Runner | None = None
        self._task: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        if record.state is RunState.EXITED:
            self.gone.set()

    # --- What the cluster asks -------------------------------------------------------------------------------------------
    def note(self, state: RunState, reason: str, evidence: Mapping[str, Any] | None = None) -> None:
        """Write down and announce; nothing, where nothing has changed."""
        record, facts = self.record, dict(evidence or {})
        if (record.state, record.reason, record.evidence) == (state, reason, facts):
            return
        record.state, record.reason, record.evidence, record.since = state, reason, facts, clock.now()
        self._site.store.save(record)
        self._site.tell(record)

    def begin(self) -> None:
        """The place is reserved in `record.grants`."""
        self._start(self._bring_up())

    def adopt(self) -> None:
        """Go on with a run that an earlier driver began; not for one that only waits."""
        self._start(self._take_over())

    def stop(self, grace_seconds: float, reason: str = "") -> None:
        """Ask for the end; of several callers the shortest grace and the first reason count."""
        record = self.record
        if self.gone.is_set() or record.state is RunState.EXITED:  # ended, and its claim is just being given back
            return
        record.grace = grace_seconds if record.grace is None else min(record.grace, grace_seconds)
        record.end_reason = record.end_reason or reason
        if record.state is RunState.WAITING:
            self.note(RunState.EXITED, record.end_reason)
            self.gone.set()
            return
        self._stop.set()
        self._cancel_probe()
        self.note(RunState.STOPPING, "stopping")
        self._site.store.save(record)
        self._send_stop()

    async def let_go(self) -> None:
        """Stop looking after it; its processes do not notice."""
        tasks = [task for task in (self._probe, self._task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._runner is not None:
            self._runner.close()

    # --- Beginning -------------------------------------------------------------------------------------------------------
    def _start(self, life: Awaitable[None]) -> None:
        self._task = asyncio.create_task(self._guarded(life), name=f"run {self.record.claim}")

    async def _guarded(self, life: Awaitable[None]) -> None:
        """Whatever goes wrong in here (a full disk, say), the run's processes live on; look again, as a new driver would."""
        while True:
            try:
                return await self._live(life)
            except Exception:
                log.exception("run_unattended", run=self.record.claim)
            await asyncio.sleep(LOOK_AGAIN)
            life = self._take_over()

    async def _live(self, life: Awaitable[None]) -> None:
        try:
            await life
        except NotStarted as failure:
            await self._settle(failure.reason, failure.evidence)

    async def _bring_up(self) -> None:
        record = self.record
        self._refuse_if_stopped()
        record.attempt += 1
        if record.attempt > TRIES:
            raise NotStarted("start_failed", {"problem": f"its runner ends at once, see {self._folder / 'runner.log'}"})
        record.boot = self._site.boot
        self.note(RunState.PREPARING, "preparing_claim")
        sockets = launch.bind(record.spec.ports)
        record.ports = {name: listener.getsockname()[1] for name, listener in sockets.items()}
        record.token = launch.new_token()
        with Launch(self._site.nursery, self._folder, sockets) as started:
            prepared = await self._unless_stopped(prepare(record, self._site, self.note))
            handed_over = await self._hand_over(started, prepared)
        if not handed_over:
            return await self._bring_up()
        return await self._accompany()

    async def _hand_over(self, started: Launch, prepared: Prepared) -> bool:
        """False: its runner ended before it could be told anything, or never began."""
        record = self.record
        locked = await started.locked()
        self._runner = Runner.find(self._folder / "lock") if locked else None
        if self._runner is None:
            return False
        self._refuse_if_stopped()  # from here on there is a runner to tell
        self._site.store.save(record)
        started.give(launch.order(record, self._log, prepared.places, prepared.env))
        if await started.started() and not self._stop.is_set():
            self._is_running()
        return True

    def _is_running(self) -> None:
        if self.record.spec.probe is None:
            self.note(RunState.READY, "ready")
            return
        self.note(RunState.STARTING, "starting_server")
        self._probe = asyncio.create_task(self._until_answer())

    async def _unless_stopped(self, work: Awaitable[Result]) -> Result:
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._refuse_if_stopped()
            return task.result()
        finally:
            for each in (task, stop):
                each.cancel()

    def _refuse_if_stopped(self) -> None:
        if self._stop.is_set():
            raise NotStarted(self.record.end_reason, {})

    async def _until_answer(self) -> None:
        record = self.record
        wanted = record.spec.probe
        assert wanted is not None
        answer = asyncio.create_task(probe.answered(record.ports[wanted.port], wanted.path, record.token))
        try:
            await asyncio.wait({answer}, timeout=SLOW)
            if not answer.done():
                self.note(RunState.STARTING, "server_slow", {"waited_seconds": int(SLOW)})
            await answer
            self.note(RunState.READY, "ready")
        finally:
            answer.cancel()

    def _cancel_probe(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None

    # --- Living on under a new driver ------------------------------------------------------------------------------------
    async def _take_over(self) -> None:
        record = self.record
        self._runner = Runner.find(self._folder / "lock")
        if record.grace is not None:
            self._stop.set()
        if self._runner is None and not self._has_begun():
            await self._bring_up()
            return
        if record.state in (RunState.PREPARING, RunState.STARTING) and self._has_begun():
            self._is_running()
        if record.grace is not None:
            self._send_stop()
        await self._accompany()

    def _has_begun(self) -> bool:
        """Whether a program of this run was ever started, by any runner of it."""
        return bool(journal.read(str(self._folder), "main.json") or self._report() or self._left())

    def _left(self) -> set[int]:
        return processes.of_run(self.record.marker, self.record.groups)

    def _report(self) -> dict[str, Any] | None:
        report = journal.read(str(self._folder), "exit.json")
        return report if report and report["attempt"] == self.record.attempt else None

    # --- Until nothing is left -------------------------------------------------------------------------------------------
    async def _accompany(self) -> None:
        while True:
            if self._runner is not None:
                await self._runner.gone()
                self._runner.close()
                self._runner = None
            report = self._report()
            if report is not None or not self._left():
                break
            await self._replace_runner()
        if report is None and not self._has_begun() and self.record.grace is None:
            await self._bring_up()  # its runner went before it had started anything
            return
        reason, evidence = ends.reason(self.record, report, self._site.boot, self._log)
        await self._settle(reason, evidence, report)

    async def _replace_runner(self) -> None:
        """The runner was killed, its run was not: another one takes its part."""
        record = self.record
        log.warning("runner_replaced", run=record.claim)
        record.attempt += 1
        self._site.store.save(record)
        main = journal.read(str(self._folder), "main.json") or {}
        with Launch(self._site.nursery, self._folder, {}) as started:
            if await started.locked():
                self._runner = Runner.find(self._folder / "lock")
                started.give(launch.order_to_adopt(record, self._log, main))
                await started.started()
        if record.grace is not None:
            self._send_stop()
        self._site.tell(record)  # nothing about the run has changed, but whoever watches may want to look

    def _send_stop(self) -> None:
        if self._runner is not None:
            journal.write(str(self._folder), "stop.json", {"grace": self.record.grace})
            self._runner.ask_to_stop()

    async def _settle(self, reason: str, evidence: Mapping[str, Any], report: dict[str, Any] | None = None) -> None:
        """No process is left: give the place back, say how it ended."""
        record = self.record
        self._cancel_probe()
        groups.remove(record.groups)
        self._site.folders.drop_scratch(record.claim)
        had_cards = bool(record.grants)
        record.exit_code = report["code"] if report else None
        record.grants, record.ports, record.token = (), {}, ""
        self.note(RunState.EXITED, reason, evidence)
        if had_cards:
            await self._site.drop_claim(record.claim)
        self.gone.set()
        await self._on_gone(self)
