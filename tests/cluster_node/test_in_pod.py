"""The agent as the shipped manifests run it: in a pod, with the rights that they give it and no others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster import install
from tests.cluster.cluster import Cluster
from tests.cluster.pods import BOUND, eventually
from tests.cluster_node.agent import NodeAgent, PodAgent, rss_mib
from tests.cluster_node.programs import host_pid
from tests.cluster_node.workloads import BESIDE, GIB, Tenant


@pytest.fixture(scope="module")
def installed(session_agent: NodeAgent, prepared: Cluster) -> Iterator[PodAgent]:
    """In the place of the agent that the other tests use; on the same state."""
    session_agent.stop()
    install.install(prepared)
    yield PodAgent(prepared)
    gone = (
        "delete",
        "daemonset",
        "-n",
        install.NAMESPACE,
        "tessera-node-agent",
        "--cascade=foreground",
        "--timeout=60s",
    )
    prepared.kubectl(*gone)  # its pods, too: one agent at a time works on a state


@pytest.fixture
def agent(installed: PodAgent) -> PodAgent:
    installed.ensure()
    return installed


@pytest.mark.parametrize("before", [(), ("env", "-i")], ids=["as it is", "without its environment"])
def test_it_knows_the_processes_of_pods_by_the_machines_own_numbers(
    tenant: Tenant, agent: PodAgent, before: tuple[str, ...]
) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    pod_uid = tenant.cluster.api.get(f"/api/v1/namespaces/{tenant.name}/pods/{pod}")["metadata"]["uid"]
    with tenant.program(pod, before=before) as program:
        assert program.tell("info")["total"] == 8 * GIB
        assert program.tell(f"alloc {2 * GIB}")["ok"]
        agent.samples(1)
        claim = agent.claims()[tenant.claim_uid(pod)]
        assert [process["pid"] for process in claim["processes"]] == [host_pid(program.inner_pid, pod_uid)]
        assert claim["devices"][0]["observed_bytes"] > 2 * GIB
        assert claim["devices"][0]["uncounted_bytes"] < BESIDE


@pytest.mark.parametrize("before", [(), ("env", "-i")], ids=["as it is", "without its environment"])
def test_it_sees_who_goes_around_the_library(tenant: Tenant, agent: PodAgent, before: tuple[str, ...]) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    with tenant.program(pod, before=before, library="/usr/lib/x86_64-linux-gnu/driver/libcuda.so.1") as program:
        assert program.tell(f"alloc {20 * GIB}")["ok"]
        agent.samples(1)
        assert agent.claims()[tenant.claim_uid(pod)]["devices"][0]["uncounted_bytes"] > 20 * GIB


def test_killed_it_comes_back_and_goes_on(tenant: Tenant, agent: PodAgent) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    with tenant.program(pod) as program:
        assert program.tell(f"alloc {2 * GIB}")["ok"]
        before = agent.pid
        agent.kill()
        eventually(lambda: agent.ready() and agent.pid != before, seconds=120)
        agent.samples(1)
        (device,) = agent.claims()[tenant.claim_uid(pod)]["devices"]
        assert device["books"]["memory_used"] > 2 * GIB
        assert device["uncounted_bytes"] < BESIDE
    tenant.running(tenant.pod("b", template="t"))


def test_a_rolling_update_breaks_nothing_and_no_start_waits_for_it(tenant: Tenant, agent: PodAgent) -> None:
    """Pods start and end one after another from before its beginning until after its end."""
    template = tenant.template("t", memory="1Gi", compute=50, ceiling=50)
    first = tenant.running(tenant.pod("a", template=template))
    (old,), took = agent.names(), [started(tenant, "before", template)]
    with tenant.program(first) as program:
        assert program.tell(f"alloc {GIB // 4}")["ok"]
        agent.update()
        until = time.monotonic() + BOUND
        while old in agent.names():
            assert time.monotonic() < until, (agent.names(), agent.said())
            took.append(started(tenant, f"during-{len(took)}", template))
            assert program.tell(f"alloc {GIB}") == {"ok": False, "code": 2}
        agent.ensure()
        agent.samples(1)
        (device,) = agent.claims()[tenant.claim_uid(first)]["devices"]
        assert device["books"]["memory_used"] > GIB // 4
        assert device["uncounted_bytes"] < BESIDE
    eventually(lambda: list(agent.claims()) == [tenant.claim_uid(first)], tenant.story, meanwhile=tenant.prod)
    sockets = [path.name for path in tenant.cluster.layout.kubelet.rglob("gpu.tessera.dev*-reg.sock")]
    assert len(sockets) == 1, sockets
    print(
        f"Before the update a pod ran after {took[0]:.1f} s; during it {len(took) - 1}, the slowest after {max(took[1:]):.1f} s"
    )


def started(tenant: Tenant, name: str, template: str) -> float:
    """Seconds until a pod ran, and the next can come: it is being deleted. Who met no agent is told by an event, whatever was prodded."""
    began = time.monotonic()
    pod = tenant.running(tenant.pod(name, template=template))
    took = time.monotonic() - began
    assert not tenant.met_no_agent(pod), tenant.story(pod)
    tenant.cluster.api.delete(f"/api/v1/namespaces/{tenant.name}/pods/{pod}")
    return took


def test_it_is_small(agent: PodAgent) -> None:
    agent.samples(2)
    print(f"RSS of the agent in its pod: {rss_mib(agent.pid):.0f} MiB")
    assert rss_mib(agent.pid) < 100
