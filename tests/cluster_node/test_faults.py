"""What must not matter: restarts, kills, deletions, sick cards, hostile programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.pods import eventually
from tests.cluster.simulated import TOOL
from tests.cluster_node.agent import NodeAgent, seconds_until
from tests.cluster_node.workloads import BESIDE, GIB, Tenant

SLICE = "/apis/resource.k8s.io/v1/resourceslices/node-1-gpu.tessera.dev"
MS = 1_000_000  # ns


def find_slice(cluster: Cluster) -> dict[str, Any] | None:
    found: dict[str, Any] | None = cluster.api.find(SLICE)
    return found


def taints(cluster: Cluster) -> dict[str, str]:
    """Effects by device."""
    devices = (find_slice(cluster) or {}).get("spec", {}).get("devices", [])
    return {device["name"]: taint["effect"] for device in devices for taint in device.get("taints", ())}


def fault(cluster: Cluster, card: int, state: str, *, xid: int = 0) -> None:
    words: list[str | Path] = [TOOL, "fault", cluster.layout.sim_node, "card", str(card), state, "--xid", str(xid)]
    subprocess.run(words, check=True)


def test_a_slice_that_is_deleted_comes_back_at_once(agent: NodeAgent, prepared: Cluster) -> None:
    before = find_slice(prepared)
    assert before is not None
    prepared.api.delete(SLICE)
    took = seconds_until(lambda: find_slice(prepared) is not None)
    after = find_slice(prepared)
    assert after is not None
    print(f"The slice was back after {took:.2f} s")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert after["spec"]["devices"] == before["spec"]["devices"]


def test_a_restarted_agent_leaves_a_slice_alone_that_is_as_it_should_be(agent: NodeAgent, prepared: Cluster) -> None:
    """The server writes quantities and times in its own way: that is no difference. On a machine so busy that the agent calls its cards
    late for a moment there is one, hence several tries."""

    def is_left_alone() -> bool:
        agent.samples(1)
        before = find_slice(prepared)
        agent.stop()
        agent.start()
        agent.samples(1)
        return version_of(before) == version_of(find_slice(prepared))

    assert any(is_left_alone() for _ in range(4))


def version_of(slice_: dict[str, Any] | None) -> str:
    assert slice_ is not None
    return str(slice_["metadata"]["resourceVersion"])


def test_a_restarted_kubelet_finds_the_driver_and_the_cards_again(tenant: Tenant, agent: NodeAgent) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    old = (find_slice(tenant.cluster) or {})["metadata"]["uid"]
    with tenant.program(pod) as program:
        assert program.tell(f"alloc {2 * GIB}")["ok"]
    tenant.cluster.stop_kubelet()
    tenant.cluster.start_kubelet()
    # it deletes the node's slices when it starts
    eventually(lambda: (find_slice(tenant.cluster) or {"metadata": {"uid": old}})["metadata"]["uid"] != old)
    eventually(agent.ready)
    tenant.running(tenant.pod("b", template="t"))
    assert tenant.runs(pod)
    with tenant.program(pod) as program:
        assert program.tell("info")["total"] == 8 * GIB
    assert len(agent.claims()) == 2
    tenant.delete(pod)
    eventually(lambda: len(agent.claims()) == 1, agent.claims)


def test_an_agent_that_is_killed_is_missed_by_nobody(tenant: Tenant, agent: NodeAgent) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    uid = tenant.claim_uid(pod)
    with tenant.program(pod) as program:
        assert program.tell(f"alloc {2 * GIB}")["ok"]
        agent.kill()
        assert program.tell(f"alloc {4 * GIB}")["ok"]
        assert not program.tell(f"alloc {4 * GIB}")["ok"], "limits hold without it"
        assert program.tell(f"launch {MS} 10")["ok"]
        waiting = tenant.pod("b", template="t")
        eventually(lambda: tenant.met_no_agent(waiting), tenant.story)
        agent.start()
        agent.samples(1)
        (device,) = agent.claims()[uid]["devices"]
        assert 6 * GIB < device["books"]["memory_used"] < 8 * GIB
        assert device["uncounted_bytes"] < BESIDE
    tenant.running(waiting)


def test_a_pod_that_ends_while_no_agent_runs_gives_its_share_back_later(tenant: Tenant, agent: NodeAgent) -> None:
    template = tenant.template("t", memory=None)
    pods = [tenant.running(tenant.pod(name, template=template)) for name in ("a", "b")]
    agent.kill()
    tenant.cluster.kubectl("delete", "pod", "-n", tenant.name, pods[0], "--wait=false")
    waiting = tenant.pod("c", template=template)
    eventually(lambda: tenant.events(waiting), tenant.story)
    assert not tenant.runs(waiting)
    agent.start()
    tenant.running(waiting)
    assert len(agent.claims()) == 2


def test_killed_inside_prepare_the_next_try_succeeds(tenant: Tenant, agent: NodeAgent) -> None:
    """tests/unit/node/dra/test_crash.py does this at every change of the file system; here kubelet does the next try."""
    template = tenant.template("t", memory="1Gi", compute=100, ceiling=100)
    pods = []
    for change in (1, 8, 20):
        agent.stop()
        agent.start(dies_at=change)
        agent.trigger.touch()
        pods.append(tenant.pod(f"killed-at-{change}", template=template))
        agent.dead()
    assert not any(tenant.runs(pod) for pod in pods)
    agent.start()
    tenant.running(*pods)
    for pod in pods:
        with tenant.program(pod) as program:
            assert program.tell("info")["total"] == GIB
    assert set(agent.claims()) == {tenant.claim_uid(pod) for pod in pods}


def test_killed_inside_unprepare_the_next_try_succeeds(tenant: Tenant, agent: NodeAgent) -> None:
    template = tenant.template("t", memory="1Gi", compute=100, ceiling=100)
    changes = (1, 5)
    pods = [tenant.pod(f"killed-at-{change}", template=template) for change in changes]
    tenant.running(*pods)
    for pod, change in zip(pods, changes, strict=True):
        agent.stop()
        agent.start(dies_at=change)
        agent.trigger.touch()
        tenant.cluster.kubectl("delete", "pod", "-n", tenant.name, pod, "--wait=false")
        agent.dead()
    agent.start()
    eventually(lambda: not agent.claims() and not tenant.pods(), tenant.story, meanwhile=tenant.prod)


def test_a_pod_removed_by_force_leaves_nothing(tenant: Tenant, agent: NodeAgent) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    with tenant.program(pod) as program:
        assert program.tell(f"alloc {GIB}")["ok"]
        tenant.cluster.kubectl("delete", "pod", "-n", tenant.name, pod, "--force", "--grace-period=0")
    eventually(lambda: not agent.claims(), tenant.story)


def test_a_sick_card_gets_no_new_pod_until_it_is_well(tenant: Tenant, agent: NodeAgent) -> None:
    cluster = tenant.cluster
    template = tenant.template("t")
    try:
        fault(cluster, 0, "unhealthy")
        eventually(lambda: taints(cluster) == {"gpu-0": "NoSchedule"}, lambda: taints(cluster))
        pods = [tenant.running(tenant.pod(f"p{number}", template=template)) for number in range(2)]
        assert [tenant.devices(pod)[0]["device"] for pod in pods] == ["gpu-1", "gpu-1"]
    finally:
        fault(cluster, 0, "healthy")
    eventually(lambda: taints(cluster) == {}, lambda: taints(cluster))


def test_pods_leave_a_card_that_is_lost(tenant: Tenant, agent: NodeAgent) -> None:
    cluster = tenant.cluster
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    device = tenant.devices(pod)[0]["device"]
    number = int(device.removeprefix("gpu-"))
    try:
        fault(cluster, number, "lost")
        eventually(lambda: taints(cluster) == {device: "NoExecute"}, lambda: taints(cluster))
        path = f"/api/v1/namespaces/{tenant.name}/pods/{pod}"
        eventually(lambda: cluster.api.find(path) is None, lambda: cluster.api.find(path))
        eventually(lambda: not agent.claims(), tenant.story, meanwhile=tenant.prod)
    finally:
        fault(cluster, number, "healthy")
    eventually(lambda: taints(cluster) == {}, lambda: taints(cluster))
    tenant.running(tenant.pod("b", template="t"))


def test_a_hostile_program_harms_only_itself(tenant: Tenant, agent: NodeAgent) -> None:
    template = tenant.template("t")
    hostile, outsider = (tenant.running(tenant.pod(name, template=template)) for name in ("a", "b"))
    cut = (
        "import os\nf = os.open('/run/tessera/claim/ledger', os.O_RDWR)\n"
        "for _ in range(50000): os.ftruncate(f, 9515008), os.ftruncate(f, 0)"
    )
    with tenant.program(outsider) as program:
        assert program.tell(f"alloc {2 * GIB}")["ok"]
        pid = agent.pid
        tenant.exec(hostile, "python3", "-c", cut)
        agent.samples(2)
        assert agent.alive
        assert agent.pid == pid
        assert list(agent.claims()) == [tenant.claim_uid(outsider)]
        assert agent.ask("/healthz", token=False)["unreadable_claims"] == [tenant.claim_uid(hostile)]
        assert program.tell("info")["total"] == 8 * GIB
    tenant.delete(hostile)
    eventually(lambda: agent.ask("/healthz", token=False)["unreadable_claims"] == [])


def test_the_log_of_a_claim_cannot_fill_the_machines_disk(tenant: Tenant, agent: NodeAgent) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    fill = "import os\nf = os.open('/run/tessera/claim/log', os.O_RDWR)\nos.posix_fallocate(f, 0, 1 << 28)"
    tenant.exec(pod, "python3", "-c", fill)
    log = Path(agent.state) / "claims" / tenant.claim_uid(pod) / "log"
    eventually(lambda: log.stat().st_size <= 1 << 20)
    assert os.stat(log).st_blocks * 512 < 2 << 20


def test_while_the_api_server_is_away_figures_go_on_and_afterwards_everything_does(
    tenant: Tenant, agent: NodeAgent
) -> None:
    pod = tenant.running(tenant.pod("a", template=tenant.template("t")))
    uid = tenant.claim_uid(pod)
    tenant.cluster.kill("kube-apiserver")
    try:
        seconds = agent.samples(4)
        assert any(f"run:{uid}" in subject for subject in seconds[-1])
        assert agent.ask("/healthz", token=False)["status"] == "ok"
    finally:
        tenant.cluster.restart("kube-apiserver")
    eventually(lambda: _answers(tenant.cluster))
    assert tenant.runs(pod)
    tenant.running(tenant.pod("b", template="t"))
    eventually(agent.ready)


def _answers(cluster: Cluster) -> bool:
    try:
        return find_slice(cluster) is not None
    except Exception:
        return False
