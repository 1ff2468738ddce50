"""Starts the parts of Tessera, keeps them running, and ends them. Knows processes, and nothing of what the parts do."""

import asyncio
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portal import leftovers, terminal
from portal.children import Child, Program, log_file

PATIENCE = 120.0  # seconds for a part to become ready the first time; a machine under load is slow
GRACE = 10.0  # seconds between asking a part to end and killing it
STEADY = 10.0  # seconds of life after which an end counts as the first again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds before a part that keeps dying is started again
_TAIL = 15  # lines of output shown when a part does not start


class CannotStart(Exception):
    """A part did not become ready; the message says which and shows its last words."""


@dataclass
class Part:
    """`ready` returns once the part does its work, raises OSError to be asked again shortly; `back` is called after each restart."""

    program: Program
    colour: str
    ready: Callable[[], Awaitable[None]]
    back: Callable[[], None] = lambda: None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))
    child: Child | None = None

    @property
    def name(self) -> str:
        return self.program.name


class Supervisor:
    def __init__(self, parts: list[Part], *, logs: Path, register: Path) -> None:
        self._parts = parts
        self._files = {part.name: log_file(logs, part.name) for part in parts}
        self._logs, self._register = logs, register
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self.hurry = asyncio.Event()  # set: nobody waits any more for a clean end

    async def start(self) -> None:
        """All parts at once; returns when all are ready. Raises CannotStart."""
        for part in self._parts:
            self._spawn(part)
        await asyncio.gather(*map(self._first_start, self._parts))
        for part in self._parts:
            self._keepers[part.name] = asyncio.create_task(self._keep(part))

    async def stop(self, names: list[str]) -> None:
        """End these parts, in this order, each by force after the grace."""
        for name in names:
            part = next(part for part in self._parts if part.name == name)
            keeper = self._keepers.pop(name, None)
            if keeper is not None:
                keeper.cancel()
            if part.child is None:
                continue
            part.child.ask_to_end()
            impatient = asyncio.create_task(self.hurry.wait())
            await _first_of(impatient, part.child.ended, GRACE)
            impatient.cancel()
            part.child.kill()
            await part.child.ended

    def _spawn(self, part: Part) -> Child:
        def on_line(line: str) -> None:
            part.tail.append(line)
            if terminal.worth_showing(line):
                terminal.from_part(part.name, part.colour, line)

        part.child = Child(part.program, self._files[part.name], on_line)
        leftovers.remember(self._register, [p.child.pid for p in self._parts if p.child is not None and p.child.alive])
        return part.child

    async def _first_start(self, part: Part) -> None:
        child = part.child
        assert child is not None
        answering = asyncio.create_task(_until_ready(part))
        await _first_of(answering, child.ended, PATIENCE)
        if answering.done() and not child.ended.done():
            answering.result()
            terminal.done(f"{part.name} is ready")
            return
        answering.cancel()
        what = f"ended at once ({_how(child.ended.result())})" if child.ended.done() else "does not answer"
        words = "\n".join(part.tail)
        raise CannotStart(f"{part.name} {what}. Its last words, from {self._logs / part.name}.log:\n{words}")

    async def _keep(self, part: Part) -> None:
        pause = 0.0
        while part.child is not None:
            code = await asyncio.shield(part.child.ended)
            if asyncio.get_running_loop().time() - part.child.began_at > STEADY:
                pause = 0.0
            again = f"again in {pause:.1f} s" if pause else "started again"
            terminal.warn(f"{part.name} ended ({_how(code)}); {again}. Its log: {self._logs / part.name}.log")
            await asyncio.sleep(pause)
            pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
            try:
                await self._restart(part)
            except Exception as problem:  # no memory, no processes left: once more later
                terminal.warn(f"{part.name} cannot be started: {problem}")

    async def _restart(self, part: Part) -> None:
        child = self._spawn(part)
        answering = asyncio.create_task(_until_ready(part))
        await _first_of(answering, child.ended)
        if answering.done():
            answering.result()
            terminal.done(f"{part.name} is back")
            part.back()
        answering.cancel()


async def _first_of(one: asyncio.Future[Any], other: asyncio.Future[int], within: float | None = None) -> None:
    both: set[asyncio.Future[Any]] = {one, other}
    await asyncio.wait(both, timeout=within, return_when=asyncio.FIRST_COMPLETED)


async def _until_ready(part: Part) -> None:
    pause = 0.02
    while True:
        try:
            return await part.ready()
        except OSError:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
