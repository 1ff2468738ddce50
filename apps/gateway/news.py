"""Wakes whoever waits for a change of one workload. Carries no data: who wakes reads the rows again."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from apps.core import bells

_PAUSE = 2.0  # seconds
_log = logging.getLogger(__name__)


class News:
    """One bell listener for all waiting pages of this process."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def about(self, workload_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set when the workload's bell rings while the block runs."""
        topic, event = f"workload:{workload_id}", asyncio.Event()
        self._waiting[topic].add(event)
        try:
            yield event
        finally:
            self._waiting[topic].discard(event)
            if not self._waiting[topic]:
                del self._waiting[topic]

    async def run(self) -> None:
        while True:
            try:
                async for topics in bells.listen():
                    self.ring(topics)
            except Exception as problem:  # pages that wait look again by themselves, only later
                _log.warning("bells are not heard, again in %.0f s: %s", _PAUSE, problem)
            await asyncio.sleep(_PAUSE)

    def ring(self, topics: frozenset[str]) -> None:
        heard = list(self._waiting) if bells.ALL in topics else topics
        for topic in heard:
            for event in self._waiting.get(topic, ()):
                event.set()
