"""The shipped manifests on a real cluster: cards are offered and cut, and no account may do more than it needs."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Iterator

import pytest

from tests.cluster import images, pods
from tests.cluster.cluster import Cluster
from tests.cluster.fake import resource_slice
from tests.cluster.install import NAMESPACE, agent_pod, devices, install, token

GIB = 1024**3
PORTAL = f"system:serviceaccount:{NAMESPACE}:tessera"
AGENT = f"system:serviceaccount:{NAMESPACE}:tessera-node-agent"
PROGRAM = """
import pynvml, time
from cuda.bindings import driver
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
print(pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetMemoryInfo(card).total, driver.cuMemAlloc(9 * 2**30)[0].name,
      driver.cuMemAlloc(2**30)[0].name, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    install(cluster)
    return cluster


@pytest.fixture
def tenant(installed: Cluster) -> Iterator[str]:
    name = f"tessera-test-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    pods.eventually(lambda: installed.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    installed.kubectl("delete", "namespace", name, "--wait=false")


def test_the_simulated_cards_are_offered_in_parts(installed: Cluster) -> None:
    offered = devices(installed)
    assert [device["name"] for device in offered] == ["gpu-0", "gpu-1"]
    assert all(device["allowMultipleAllocations"] for device in offered)
    assert offered[0]["capacity"]["compute"]["value"] in ("1", "1k", "1000")


def test_a_pod_sees_its_part_of_a_card_and_gets_no_byte_more(installed: Cluster, tenant: str) -> None:
    images.provide(installed, "notebook")
    share = {"memory": "8Gi", "compute": "300"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.tessera.dev", "capacity": {"requests": share}}}
    template = {"metadata": {"name": "share"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    installed.api.post(f"/apis/resource.k8s.io/v1/namespaces/{tenant}/resourceclaimtemplates", template)
    pod = pods.notebook("program", command=["python", "-c", PROGRAM])
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "share"}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    pods.create(installed, tenant, pod)
    said = pods.eventually(
        lambda: installed.kubectl("logs", "-n", tenant, "program", check=False).split(),
        lambda: installed.kubectl("describe", "pod", "-n", tenant, "program"),
    )
    assert said == ["1", str(8 * GIB), "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_SUCCESS"]


def test_the_agents_figures_are_for_who_has_the_token(installed: Cluster) -> None:
    pods.eventually(lambda: agent_pod(installed).get("status", {}).get("podIP"))
    assert asked(installed, "/cards", "") == 401
    assert asked(installed, "/cards", token(installed)) == 200
    assert asked(installed, "/metrics", "") == 200


@pytest.mark.parametrize(
    "question",
    [
        "get secrets -n kube-system",
        "get secrets -n {tenant}",  # before the portal's role is bound there
        "list secrets -A",
        "create pods -n kube-system",
        "delete pods -n {tenant}",
        "create pods/exec -n default",
        "delete nodes",
        "delete namespaces",
        "create clusterrolebindings",
        "bind clusterroles/cluster-admin",
        "impersonate users",
    ],
)
def test_the_portals_account_may_not(installed: Cluster, tenant: str, question: str) -> None:
    assert not may(installed, PORTAL, question.format(tenant=tenant))


def test_the_portals_account_rules_in_a_tenants_namespace_once_it_has_bound_its_role(
    installed: Cluster, tenant: str
) -> None:
    bind(installed, tenant)
    questions = ("create pods", "get secrets", "create pods/exec", "create resourceclaims")
    pods.eventually(lambda: all(may(installed, PORTAL, f"{question} -n {tenant}") for question in questions))


@pytest.mark.parametrize("question", ["list pods -A", "watch resourceclaims -A", "bind clusterroles/tessera-tenant"])
def test_the_portals_account_may(installed: Cluster, question: str) -> None:
    assert may(installed, PORTAL, question)


@pytest.mark.parametrize("place", ["default", "kube-system", NAMESPACE])
def test_the_portals_account_cannot_bind_its_role_elsewhere(installed: Cluster, place: str) -> None:
    with pytest.raises(RuntimeError, match=r"tenants in namespaces named tessera-"):
        bind(installed, place)


def test_the_portals_account_makes_namespaces_of_tenants_only(installed: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"tenants in namespaces named tessera-"):
        installed.kubectl("create", "namespace", "kube-tools", f"--as={PORTAL}")


@pytest.mark.parametrize(
    "question",
    ["get secrets -n kube-system", "list pods -A", "create pods -n default", "update nodes", "get secrets -A"],
)
def test_the_agents_account_may_not(installed: Cluster, question: str) -> None:
    assert not may(installed, AGENT, question)


def test_an_agent_publishes_cards_of_its_own_node_only(installed: Cluster) -> None:
    pod = agent_pod(installed)["metadata"]["name"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}")
    word = installed.kubectl("create", "token", "tessera-node-agent", "-n", NAMESPACE, *bound).strip()
    foreign = json.dumps(resource_slice("fake-0001", "00000000-0000-4000-8000-000000000000", 1))
    with pytest.raises(RuntimeError, match="may not touch a slice of node 'fake-0001'"):
        installed.kubectl("create", "-f", "-", *without_certificate(installed, word), stdin=foreign)


def without_certificate(cluster: Cluster, word: str) -> tuple[str, ...]:
    """kubectl prefers a client certificate to a token; an empty kubeconfig has none."""
    authority = str(cluster.layout.certificates / "ca.crt")
    return (
        f"--token={word}",
        f"--server={cluster.address}",
        f"--certificate-authority={authority}",
        "--kubeconfig=/dev/null",
    )


def bind(cluster: Cluster, place: str) -> None:
    role = ("--clusterrole=tessera-tenant", f"--serviceaccount={NAMESPACE}:tessera")
    cluster.kubectl("create", "rolebinding", "tessera", "-n", place, *role, f"--as={PORTAL}")


def may(cluster: Cluster, account: str, question: str) -> bool:
    answer = cluster.kubectl("auth", "can-i", *question.split(), f"--as={account}", check=False).strip()
    assert answer in ("yes", "no"), answer
    return answer == "yes"


def asked(cluster: Cluster, path: str, word: str) -> int:
    connection = http.client.HTTPConnection(agent_pod(cluster)["status"]["podIP"], 9400, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {word}"} if word else {})
    return connection.getresponse().status
