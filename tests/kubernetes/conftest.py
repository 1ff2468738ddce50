"""The contract suite's fixtures on this driver, and a place to make faults in."""

import logging
from collections.abc import AsyncIterator

import pytest

from tests.contract.conftest import cluster, end_everything, watch
from tests.kubernetes.place import KubernetesPlace, kubernetes_place

logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # a line for each request would bury what failed

__all__ = ["cluster", "place", "watch"]


@pytest.fixture
async def place() -> AsyncIterator[KubernetesPlace]:
    async with kubernetes_place() as made:
        yield made
        await end_everything(made)
