"""Hands each observation to everybody who listens. Keeps none: who comes later asks `list`."""

import asyncio
from collections.abc import AsyncIterator

from apps.cluster.specs import Observation

_BACKLOG = 4096  # of a reader that does not read; then its oldest go, and it finds the truth by `list`


class Feed:
    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[Observation | None]] = set()

    def publish(self, observation: Observation) -> None:
        for queue in self._readers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(observation)

    def subscribe(self) -> AsyncIterator[Observation]:
        """From this call on, not only from the first step of the iteration."""
        queue: asyncio.Queue[Observation | None] = asyncio.Queue(_BACKLOG)
        self._readers.add(queue)
        return self._read(queue)

    async def _read(self, queue: asyncio.Queue[Observation | None]) -> AsyncIterator[Observation]:
        try:
            while (observation := await queue.get()) is not None:
                yield observation
        finally:
            self._readers.discard(queue)

    def close(self) -> None:
        for queue in self._readers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
