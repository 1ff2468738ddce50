"""Pytest fixtures around the test cluster. A conftest takes them in by name:

from tests.cluster.fixtures import cluster as cluster, machine_for_a_node as machine_for_a_node
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import DEFAULT, Cluster, Options, running
from tests.cluster.machine import why_no_node

CARDS = ("h100", "h100")


@pytest.fixture(scope="session")
def machine_for_a_node() -> None:
    """Skips, with the reason, where a real node cannot run; fails instead where TESSERA_CLUSTER_REQUIRED says that it must."""
    obstacle = why_no_node()
    if obstacle and os.environ.get("TESSERA_CLUSTER_REQUIRED"):
        pytest.fail(obstacle)
    if obstacle:
        pytest.skip(obstacle)


@pytest.fixture(scope="session")
def cluster(machine_for_a_node: None) -> Iterator[Cluster]:
    """One real node with two simulated cards, for the whole session. A cluster of that name that is up already is used and stays."""
    with running(Options(cards=CARDS), os.environ.get("TESSERA_CLUSTER", DEFAULT)) as found:
        yield found
