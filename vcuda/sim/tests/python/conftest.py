"""Nodes and an environment for programs that run unmodified on the simulated driver.

Owns: nodes that live as long as a test. Knows nothing of what the clients do.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vcuda.sim.tests.python.harness import HERE, SECONDS, Node, clients


@pytest.fixture(scope="session")
def client_python() -> Path:
    return clients()


@pytest.fixture
def make_node(tmp_path: Path, client_python: Path) -> Iterator[Callable[..., Node]]:
    """Makes a node with these options; removed after the test."""
    made: list[Node] = []

    def make(*options: str) -> Node:
        node = Node(tmp_path / f"node{len(made)}", client_python)
        node.tool("create", *(options or ("--cards", "h100,l40s")))
        made.append(node)
        return node

    yield make
    for node in made:
        node.tool("destroy")


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """One H100 and one L40S in real time."""
    return make_node()


@pytest.fixture
def held(node: Node) -> Iterator[subprocess.Popen[str]]:
    """A process that holds 8 GiB and keeps card 0 busy until the test is over."""
    holder = subprocess.Popen(
        [node.python, HERE / "clients" / "hold.py"],
        env=node.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout
    assert holder.stdin
    assert holder.stdout.readline() == "ready\n"
    yield holder
    holder.stdin.close()
    assert holder.wait(SECONDS) == 0
