"""What a pod finds in the test cluster: the shipped notebook image, its home, its way out through logs and exec."""

from __future__ import annotations

import http.client
import secrets
import socket
from collections.abc import Iterator

import pytest

from tests.cluster import images, pods
from tests.cluster.cluster import Cluster

TOKEN = "the-gateway-s-word"


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """As strict as a tenant's."""
    name = f"test-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    pods.eventually(lambda: cluster.api.find(account))
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def notebook(cluster: Cluster, namespace: str) -> str:
    images.provide(cluster, "notebook")
    pods.create(
        cluster,
        namespace,
        pods.volume_claim("home"),
        pods.notebook("lab", env={"TESSERA_TOKEN": TOKEN}, claim="home"),
    )
    pods.running(cluster, namespace, "lab")
    return "lab"


def test_the_notebook_answers_at_the_address_of_its_pod(cluster: Cluster, namespace: str, notebook: str) -> None:
    address = pods.status(cluster, namespace, notebook)["podIP"]
    # It opens its port before it loads JupyterLab; from then on a request waits and is answered.
    pods.eventually(lambda: accepts(address), seconds=10)
    assert answer(address, {"Authorization": f"Bearer {TOKEN}"}) == 200
    assert answer(address, {}) in (302, 403), "nobody gets in without the gateway's word"


def test_its_output_and_a_terminal_inside_it_can_be_reached(cluster: Cluster, namespace: str, notebook: str) -> None:
    cluster.kubectl("exec", "-n", namespace, notebook, "--", "sh", "-c", "echo kept > ~/note; id -u; id -g")
    inside = cluster.kubectl("exec", "-n", namespace, notebook, "--", "sh", "-c", "id -u; cat ~/note; stat -c %g ~")
    assert inside.split() == ["1000", "kept", "1000"]
    pods.eventually(lambda: "JupyterLab is ready" in cluster.kubectl("logs", "-n", namespace, notebook))


def test_a_home_outlives_the_pod(cluster: Cluster, namespace: str) -> None:
    images.provide(cluster, "notebook")
    write = pods.notebook("writes", command=["sh", "-c", "echo kept > ~/note; sleep 600"], claim="home")
    pods.create(cluster, namespace, pods.volume_claim("home"), write)
    pods.running(cluster, namespace, "writes")
    cluster.kubectl("delete", "pod", "-n", namespace, "writes")
    pods.create(cluster, namespace, pods.notebook("reads", command=["sh", "-c", "cat ~/note; sleep 600"], claim="home"))
    pods.running(cluster, namespace, "reads")
    assert cluster.kubectl("logs", "-n", namespace, "reads") == "kept\n"
    folders = set(cluster.layout.volumes.iterdir())
    assert folders
    cluster.kubectl("delete", "-n", namespace, "pod/reads", "pvc/home")
    pods.eventually(lambda: set(cluster.layout.volumes.iterdir()) < folders)


def accepts(address: str) -> bool:
    try:
        socket.create_connection((address, 8888), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def answer(address: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(address, 8888, timeout=60)
    connection.request("GET", "/lab", headers=headers)
    return connection.getresponse().status
