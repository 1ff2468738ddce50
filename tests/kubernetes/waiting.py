"""Waits of the tests for what tells nobody when it changes."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.kubernetes.place import KubernetesPlace
from tests.kubernetes.server import Manifest

NAME = "w-a-1"  # of the first run of "a"


async def until(condition: Callable[[], Any]) -> None:
    """For what tells nobody when it changes."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def pod_of(place: KubernetesPlace, name: str = NAME) -> Manifest:
    return place.server.one("pods", name)
