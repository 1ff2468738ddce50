"""The agent's heartbeat: a thread that sleeps in node time, asks the driver, and hands what it saw to the event loop.

Owns the pace and all calls of NVML, which may block for as long as a driver pleases; the loop answers meanwhile. In
virtual time the thread lets the clock go on only after the loop has taken in a tick.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from vcuda.node.clock import Clock
from vcuda.node.node import Node
from vcuda.node.nvml import Gauges, Look, Nvml

PERIOD_NS: Final = 100_000_000
TICKS_PER_SECOND: Final = 10
log = logging.getLogger(__name__)

TakeIn = Callable[[Mapping[str, Look], Mapping[str, Gauges] | None, int], Awaitable[None]]


class Ticker:
    """`take_in` runs on the loop with the looks of a tick, and once a second with gauges too."""

    def __init__(self, node: Node, nvml: Nvml, clock: Clock, take_in: TakeIn, on_failure: Callable[[], None]) -> None:
        self._node = node
        self._nvml = nvml
        self._clock = clock
        self._take_in = take_in
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Returns when the thread has ended, a period later at most; one that hangs in the driver is left behind."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, 2)

    async def first(self) -> None:
        """One tick before the thread runs, so that whoever connects finds figures."""
        await self._take_in(self._looks(), self._gauges(), self._clock.now_ns())

    def _run(self) -> None:
        try:
            self._clock.enter()
            due, count = self._clock.now_ns(), 0
            while not self._stopping.is_set():
                due = max(due + PERIOD_NS, self._clock.now_ns())
                self._clock.sleep_until(due)
                count += 1
                self._tick(whole_second=count % TICKS_PER_SECOND == 0)
        except Exception:
            if not self._stopping.is_set():
                log.exception("The ticker failed; the agent ends.")
                self._loop.call_soon_threadsafe(self._on_failure)

    def _tick(self, *, whole_second: bool) -> None:
        looks = self._looks()
        gauges = self._gauges() if whole_second else None
        asyncio.run_coroutine_threadsafe(self._hand_over(looks, gauges), self._loop).result()

    async def _hand_over(self, looks: Mapping[str, Look], gauges: Mapping[str, Gauges] | None) -> None:
        """The moment is taken on the loop: the ledgers are read there."""
        if not self._stopping.is_set():
            await self._take_in(looks, gauges, self._clock.now_ns())

    def _looks(self) -> dict[str, Look]:
        return {
            uuid: self._nvml.look(uuid, since_us=card.utilisation.newest_us) for uuid, card in self._node.cards.items()
        }

    def _gauges(self) -> dict[str, Gauges]:
        return {uuid: self._nvml.gauges(uuid) for uuid in self._node.cards}
