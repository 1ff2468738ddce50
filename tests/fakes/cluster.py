"""A Cluster in memory, for tests of services and the controller, and for looking at pages without a driver (TESSERA_DRIVER=
tests.fakes.cluster.FakeCluster). It keeps the protocol's promises and places shares on cards; tests decide what happens when.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.cluster.specs import (
    Card,
    Endpoint,
    Holder,
    Inventory,
    LogChunk,
    Observation,
    Resizing,
    RunSpec,
    RunState,
    Sample,
)
from apps.core import clock
from apps.core.errors import Conflict, NotFound, Unavailable
from apps.core.share import GIB, GpuShare

ALIVE = (RunState.WAITING, RunState.PREPARING, RunState.STARTING, RunState.READY, RunState.STOPPING)
H100 = Card(
    uuid="GPU-h100", node="here", index=0, model="H100", memory=79 * GIB, physical_memory=80 * GIB, simulated=True
)
L40S = Card(
    uuid="GPU-l40s", node="here", index=1, model="L40S", memory=47 * GIB, physical_memory=48 * GIB, simulated=True
)


@dataclass
class Run:
    spec: RunSpec
    seen: Observation


class FakeCluster:
    """`auto` walks every run to READY, and every deletion to the end, by itself; without it tests call `go`."""

    def __init__(self, cards: Sequence[Card] = (H100, L40S), *, auto: bool = True) -> None:
        self.cards = tuple(cards)
        self.auto = auto
        self.silent = False  # every call raises Unavailable, and nothing is seen
        self.runs: dict[str, Run] = {}
        self.calls: list[tuple[str, str]] = []  # (method, uid), in order
        self.removed_volumes: list[str] = []
        self.refuse: Exception | None = None  # raised by the next apply
        self.resizing = Resizing.FULL
        self.before: Callable[[str, str], None] = lambda method, uid: None  # a test's chance to interfere
        self._listeners: list[asyncio.Queue[Observation]] = []
        self.sample_batches: asyncio.Queue[Sequence[Sample]] = asyncio.Queue()

    # --- The protocol ----------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        self._answer("start", "")

    async def close(self) -> None:
        self.calls.append(("close", ""))

    async def apply(self, spec: RunSpec) -> Observation:
        self._answer("apply", spec.uid)
        if self.refuse is not None:
            refusal, self.refuse = self.refuse, None
            raise refusal
        known = self.runs.get(spec.uid)
        if known is not None and known.spec.run >= spec.run:
            return known.seen
        if known is not None and known.seen.state in ALIVE:
            return replace(known.seen, state=RunState.STOPPING)
        self.runs[spec.uid] = Run(spec, self._sight(spec, RunState.WAITING))
        self._place(spec.uid)
        return self.runs[spec.uid].seen

    async def delete(self, uid: str, *, grace_seconds: int) -> Observation:
        self._answer("delete", uid)
        known = self.runs.get(uid)
        if known is None or known.seen.state not in ALIVE:
            return known.seen if known else self._absent(uid)
        self.go(uid, RunState.STOPPING)
        if self.auto:
            asyncio.get_running_loop().call_soon(self.go, uid, RunState.EXITED)
        return known.seen

    async def resize(self, uid: str, run: int, share: GpuShare) -> GpuShare:
        self._answer("resize", uid)
        known = self.runs.get(uid)
        gpu = known.spec.resources.gpu if known else None
        if known is None or gpu is None or known.spec.run != run or not known.seen.cards:
            raise NotFound("no such run")
        for card in (self._with_holders(card) for card in self.cards if card.uuid in known.seen.cards):
            memory, compute = card.free_memory + gpu.memory, card.free_compute + gpu.compute
            if share.memory > memory or share.compute > compute:
                evidence = {"room_bytes": memory, "room_permille": compute}
                raise Conflict("no room on the card", code="resize_card", evidence=evidence)
        known.spec = replace(known.spec, resources=replace(known.spec.resources, gpu=share))
        return share

    async def get(self, uid: str) -> Observation:
        self._answer("get", uid)
        known = self.runs.get(uid)
        return replace(known.seen, observed_at=clock.now()) if known else self._absent(uid)

    async def list(self) -> Sequence[Observation]:
        self._answer("list", "")
        return [replace(run.seen, observed_at=clock.now()) for run in self.runs.values()]

    async def specs(self) -> Sequence[RunSpec]:
        self._answer("specs", "")
        return [replace(run.spec, env={}) for run in self.runs.values() if run.seen.state in ALIVE]

    async def observe(self) -> AsyncIterator[Observation]:
        mine: asyncio.Queue[Observation] = asyncio.Queue()
        self._listeners.append(mine)
        try:
            while True:
                yield await mine.get()
        finally:
            self._listeners.remove(mine)

    async def logs(self, uid: str, *, offset: int = 0, limit: int = 65536) -> LogChunk:
        self._answer("logs", uid)
        text = f"[I] JupyterLab of {uid} is running\n"
        start = max(len(text) + offset, 0) if offset < 0 else min(offset, len(text))
        part = text[start : start + limit]
        known = self.runs.get(uid)
        return LogChunk(part, start, start + len(part), eof=known is None or known.seen.state not in ALIVE)

    async def inventory(self) -> Inventory:
        self._answer("inventory", "")
        return Inventory(
            "fake", clock.now(), tuple(map(self._with_holders, self.cards)), 32_000, 128 * GIB, "single_account",
            resizing=self.resizing,
        )  # fmt: skip

    async def samples(self) -> AsyncIterator[Sequence[Sample]]:
        while True:
            yield await self.sample_batches.get()

    async def dial(self, uid: str, port: str) -> Endpoint:
        self._answer("dial", uid)
        if uid not in self.runs:
            raise NotFound("nothing to connect to")
        return Endpoint("127.0.0.1", 9, {"Authorization": "token secret"})

    async def remove_volume(self, name: str) -> None:
        self._answer("remove_volume", name)
        self.removed_volumes.append(name)

    # --- What tests do ---------------------------------------------------------------------------------------------------
    def go(self, uid: str, state: RunState, reason: str = "", *, exit_code: int | None = None, **evidence: Any) -> None:
        """Let the run be seen in `state` from now on."""
        run = self.runs[uid]
        run.seen = replace(
            run.seen, state=state, observed_at=clock.now(), reason=reason, evidence=evidence, exit_code=exit_code,
            cards=run.seen.cards if state in ALIVE else (),
        )  # fmt: skip
        self._tell(run.seen)
        if state not in ALIVE:
            self._place_waiting()

    def lose(self, uid: str) -> None:
        """As if somebody had removed it behind our back."""
        self.runs.pop(uid)
        self._tell(self._absent(uid))

    def tell(self, uid: str) -> None:
        """An observation without any change, as after a gap."""
        self._tell(self.runs[uid].seen)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FakeCluster":
        """The same runs, watched by nobody."""
        twin = FakeCluster(self.cards, auto=self.auto)
        twin.runs = copy.deepcopy(self.runs, memo)
        twin.removed_volumes = list(self.removed_volumes)
        return twin

    # --- Inside ----------------------------------------------------------------------------------------------------------
    def _answer(self, method: str, uid: str) -> None:
        self.calls.append((method, uid))
        self.before(method, uid)
        if self.silent:
            raise Unavailable("the cluster does not answer", code="agent_unavailable")

    def _tell(self, seen: Observation) -> None:
        for listener in self._listeners:
            listener.put_nowait(seen)

    def _sight(self, spec: RunSpec, state: RunState) -> Observation:
        return Observation(spec.uid, spec.run, state, clock.now(), node="here")

    def _absent(self, uid: str) -> Observation:
        return Observation(uid, 0, RunState.ABSENT, clock.now())

    def _with_holders(self, card: Card) -> Card:
        held = [run for run in self.runs.values() if card.uuid in run.seen.cards and run.spec.resources.gpu]
        shares = [(run.spec.uid, run.spec.resources.gpu) for run in held]
        return replace(card, holders=tuple(Holder(u, g.memory, g.compute, g.ceiling) for u, g in shares if g))

    def _place(self, uid: str) -> None:
        run = self.runs[uid]
        gpu = run.spec.resources.gpu
        cards = [self._with_holders(card) for card in self.cards]
        fitting = [c for c in cards if gpu and c.free_memory >= gpu.memory and c.free_compute >= gpu.compute]
        if gpu is not None and len(fitting) < gpu.count:
            room = max(cards, key=lambda c: c.free_memory, default=None)
            self.go(
                uid, RunState.WAITING, "waiting_card", memory_bytes=gpu.memory, compute_permille=gpu.compute,
                room_bytes=room.free_memory if room else 0, room_permille=room.free_compute if room else 0,
            )  # fmt: skip
            return
        best = sorted(fitting, key=lambda c: c.free_memory)[: gpu.count if gpu else 0]
        run.seen = replace(run.seen, cards=tuple(card.uuid for card in best))
        self.go(uid, RunState.PREPARING)
        if self.auto:
            asyncio.get_running_loop().call_soon(self._walk, uid, run.spec.run)

    def _walk(self, uid: str, number: int) -> None:
        run = self.runs.get(uid)
        if run is not None and run.spec.run == number and run.seen.state is RunState.PREPARING:
            self.go(uid, RunState.STARTING)
            self.go(uid, RunState.READY)

    def _place_waiting(self) -> None:
        for uid, run in list(self.runs.items()):
            if run.seen.state is RunState.WAITING:
                self._place(uid)
