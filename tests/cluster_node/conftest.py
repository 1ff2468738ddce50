"""A real node with two simulated H100, and the node agent on it as its DRA driver."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import cluster as cluster
from tests.cluster.fixtures import machine_for_a_node as machine_for_a_node
from tests.cluster.parts import PROJECT
from tests.cluster.pods import eventually
from tests.cluster_node import python_image
from tests.cluster_node.agent import NodeAgent, Reader
from tests.cluster_node.workloads import Tenant


@pytest.fixture(scope="session")
def prepared(cluster: Cluster) -> Cluster:
    """With the image of the programs, and the device class that an administrator applies."""
    tar = cluster.layout.root / "test-python.tar"
    if not tar.exists():
        python_image.write(tar)
    cluster.import_image(tar)
    (device_class,) = (PROJECT / "deploy/kubernetes").rglob("device-class.yaml")
    cluster.kubectl("apply", "--server-side", "-f", str(device_class))
    return cluster


@pytest.fixture(scope="session")
def session_agent(prepared: Cluster) -> Iterator[NodeAgent]:
    with tempfile.TemporaryDirectory(prefix="tessera-cn-") as folder:
        agent = NodeAgent(prepared, Path(folder))
        agent.start()
        yield agent
        agent.stop()


@pytest.fixture
def agent(session_agent: NodeAgent) -> NodeAgent:
    """Runs when the test begins, whatever the one before did to it. A module may have one of its own."""
    session_agent.ensure()
    return session_agent


@pytest.fixture(scope="session")
def namespace(prepared: Cluster) -> Iterator[Tenant]:
    name = f"node-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    prepared.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    eventually(lambda: prepared.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield Tenant(prepared, name)
    prepared.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def tenant(agent: Reader, namespace: Tenant) -> Iterator[Tenant]:
    """Empty after the test, and with it the node: nothing is left in the agent's folder or among the CDI files."""
    namespace.others_said = agent.said
    yield namespace
    agent.ensure()
    namespace.clear()
    eventually(lambda: not agent.claims(), lambda: (agent.claims(), namespace.story()))
    assert list((agent.state / "claims").iterdir()) == []
    assert list(namespace.cluster.layout.cdi.glob("tessera-*")) == []
