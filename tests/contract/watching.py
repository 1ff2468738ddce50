"""Waiting for what a cluster says, by its own stream. Bounds only say when a test gives up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from apps.cluster.protocol import Cluster
from apps.cluster.specs import Observation, RunState

BOUND = 90.0  # s


class Watcher:
    """Everything observed since it was made, in order."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.seen: list[Observation] = []
        self._stream = cluster.observe()
        self._changed = asyncio.Condition()
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for observation in self._stream:
            async with self._changed:
                self.seen.append(observation)
                self._changed.notify_all()

    async def until(
        self, uid: str, state: RunState, reason: str | None = None, *, run: int | None = None
    ) -> Observation:
        """The newest observation of `uid`, once it is in this state (and has this reason, and is of this run)."""

        def wanted() -> Observation | None:
            newest = next((seen for seen in reversed(self.seen) if seen.uid == uid), None)
            fits = newest is not None and newest.state is state
            fits = fits and reason in (None, newest.reason) and run in (None, newest.run)  # type: ignore[union-attr]
            return newest if fits else None

        seen: Observation = await self._until(wanted, f"{uid} {state} {reason or ''}")
        return seen

    async def more(self, uid: str, than: int) -> None:
        """Wait until more than so many observations of `uid` were seen."""
        await self._until(lambda: self.count(uid) > than or None, f"more than {than} of {uid}")

    def count(self, uid: str) -> int:
        return sum(seen.uid == uid for seen in self.seen)

    async def _until(self, wanted: Callable[[], Any], what: str) -> Any:
        try:
            async with asyncio.timeout(BOUND), self._changed:
                while (found := wanted()) is None:
                    await self._changed.wait()
                return found
        except TimeoutError:
            raise AssertionError(f"never came: {what}; seen: {self.seen}") from None

    def states(self, uid: str) -> list[RunState]:
        """In order, each stretch once."""
        states: list[RunState] = []
        for seen in self.seen:
            if seen.uid == uid and states[-1:] != [seen.state]:
                states.append(seen.state)
        return states

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def watching(cluster: Cluster) -> AsyncIterator[Watcher]:
    watcher = Watcher(cluster)
    try:
        yield watcher
    finally:
        await watcher.close()


async def facts(cluster: Cluster, uid: str) -> dict[str, Any]:
    """What the program (program.py, `serve`) says of itself, asked the way the gateway does."""
    endpoint = await cluster.dial(uid, "http")
    async with (
        aiohttp.ClientSession(headers=dict(endpoint.headers)) as session,
        session.get(f"http://{endpoint.host}:{endpoint.port}/") as response,
    ):
        answer: dict[str, Any] = await response.json(content_type=None)
        return answer


async def until_seen(cluster: Cluster, uid: str, state: RunState) -> Observation:
    """By asking: nobody is told of what is not known, or of what another process has found out."""
    async with asyncio.timeout(BOUND):
        while (seen := await cluster.get(uid)).state is not state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return seen
