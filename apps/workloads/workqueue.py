"""A queue of keys: each key is worked on by one task at a time, rings while it is worked on are kept as one more round, failures back off.

Everything runs in one event loop; nothing here knows what the keys mean.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE = 0.2  # seconds after the first failure of a key, doubled after each further one
LONGEST_PAUSE = 30.0
_log = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """`work` raises to have its key tried again later; what is in `fatal` ends `run` instead."""

    def __init__(
        self,
        work: Callable[[Key], Awaitable[None]],
        *,
        at_once: int = 32,
        expected: tuple[type[Exception], ...] = (),
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        self._work = work
        self._places = asyncio.Semaphore(at_once)
        self._expected = expected  # logged in one line, without a trace
        self._fatal = fatal
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._pauses: dict[Key, asyncio.TimerHandle] = {}
        self._end: asyncio.Future[None] | None = None

    def add(self, key: Key) -> None:
        """Work on `key` now, or once more after the round that is under way. Cuts a pause short."""
        pause = self._pauses.pop(key, None)
        if pause is not None:
            pause.cancel()
        if key in self._tasks:
            self._again.add(key)
        else:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._round(key))

    def add_later(self, key: Key, seconds: float) -> None:
        if key not in self._pauses and key not in self._tasks:
            self._pauses[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    def retry_now(self) -> None:
        """Cut all pauses short: what was missing is back."""
        for key in list(self._pauses):
            self.add(key)

    @property
    def idle(self) -> bool:
        return not self._tasks and not self._pauses

    @property
    def pausing(self) -> int:
        """How many keys wait after a failure."""
        return len(self._pauses)

    async def run(self) -> None:
        """Until cancelled, or until `work` raised something fatal. Then no task is left."""
        self._end = asyncio.get_running_loop().create_future()
        try:
            await self._end
        finally:
            for pause in self._pauses.values():
                pause.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _round(self, key: Key) -> None:
        pause = 0.0
        try:
            async with self._places:
                self._again.discard(key)
                await self._work(key)
            self._failures.pop(key, None)
        except self._fatal as error:
            if self._end is not None and not self._end.done():
                self._end.set_exception(error)
        except Exception as error:
            pause = self._failed(key, error)
        finally:
            del self._tasks[key]
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif pause:
            self.add_later(key, pause)

    def _failed(self, key: Key, error: Exception) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause: float = min(FIRST_PAUSE * 2.0 ** (failures - 1), LONGEST_PAUSE) * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries
        trace = None if isinstance(error, self._expected) else error
        _log.warning("%s: %s; again in %.1f s", key, error, pause, exc_info=trace)
        return pause
