"""Waits of the tests for what tells nobody when it changes."""

import asyncio
from collections.abc import Callable
from typing import Any

from apps.cluster.drivers.kubernetes import KubernetesCluster
from apps.cluster.specs import Observation, RunState
from tests.kubernetes.place import KubernetesPlace
from tests.kubernetes.server import Manifest

NAME = "w-a-1"  # of the first run of "a"


async def until(condition: Callable[[], Any]) -> None:
    """For what tells nobody when it changes."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_seen(cluster: KubernetesCluster, uid: str, state: RunState) -> Observation:
    """By asking: nobody is told of what is not known."""
    async with asyncio.timeout(20):
        while (seen := await cluster.get(uid)).state is not state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return seen


def pod_of(place: KubernetesPlace, name: str = NAME) -> Manifest:
    return place.server.one("pods", name)
