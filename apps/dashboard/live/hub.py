"""One listener for bells per web process, fanned out to all sockets. Owns no rows and no protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog

from apps.core import bells

logger = structlog.get_logger(__name__)
_RETRY_SECONDS = 1.0  # after the listener broke; sockets re-read by themselves meanwhile


class Socket(Protocol):
    user_id: UUID

    def rang(self, topics: frozenset[str]) -> None:
        """Called in the event loop; must return at once."""


class Hub:
    """The sockets of one event loop. The listener runs while there is one."""

    def __init__(self, listen: Callable[[], AsyncIterator[frozenset[str]]] = bells.listen) -> None:
        self._listen = listen
        self._sockets: set[Socket] = set()
        self._task: asyncio.Task[None] | None = None

    def count(self, user_id: UUID) -> int:
        return sum(socket.user_id == user_id for socket in self._sockets)

    def join(self, socket: Socket) -> None:
        self._sockets.add(socket)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="live-hub")

    def leave(self, socket: Socket) -> None:
        self._sockets.discard(socket)
        if not self._sockets and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._fan_out()

    async def _fan_out(self) -> None:
        try:
            async for topics in self._listen():
                for socket in tuple(self._sockets):
                    socket.rang(topics)
        except Exception:  # whatever broke the listener, the pages must go on
            logger.warning("bells cannot be heard; pages re-read on a timer", exc_info=True)
            await asyncio.sleep(_RETRY_SECONDS)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Of the running event loop: one per process in production."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = Hub()
    return found
