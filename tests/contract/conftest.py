"""Every driver that can run here gets the same tests. A driver is a `Place`: how to make its cluster, and specs that it can run."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import RunSpec, RunState
from tests.contract.local_site import local_site
from tests.contract.watching import Watcher, watching


class Place(Protocol):
    keeps_accounts_apart: bool

    def cluster(self) -> Cluster:
        """A new one, not started, on the same machines as all others of this place."""

    def cards(self, models: str = "h100") -> AbstractAsyncContextManager[object]:
        """While entered, the place has these GPUs."""

    def spec(self, uid: str, *words: str, run: int = 1, **changes: Any) -> RunSpec: ...


@pytest.fixture(params=["local"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    with {"local": local_site}[request.param]() as made:
        yield made
        await end_everything(made)


@pytest.fixture
async def cluster(place: Place) -> AsyncIterator[Cluster]:
    made = place.cluster()
    await made.start()
    yield made
    await made.close()


async def end_everything(place: Place) -> None:
    """Whatever a test's drivers have begun, also where the test has failed half way."""
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        for seen in await cluster.list():
            if (await cluster.delete(seen.uid, grace_seconds=0)).state not in (RunState.EXITED, RunState.ABSENT):
                await watch.until(seen.uid, RunState.EXITED)
    await cluster.close()


@pytest.fixture
async def watch(cluster: Cluster) -> AsyncIterator[Watcher]:
    async with watching(cluster) as made:
        yield made
