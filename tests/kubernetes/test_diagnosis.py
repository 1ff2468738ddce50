"""What operators are told of their cluster, found by really asking an API server."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from apps.cluster.diagnosis import Area, Finding, Level, Report
from apps.cluster.drivers.kubernetes import KubernetesCluster, names
from apps.cluster.drivers.kubernetes.diagnosis import rights
from apps.core import clock
from apps.core.reason_texts import CATALOGUE
from apps.core.reasons import Severity
from apps.core.share import GIB, GpuShare
from tests.kubernetes.control import ACCOUNT, ControlPlane, roles
from tests.kubernetes.machines import node
from tests.kubernetes.place import KubernetesPlace
from tests.kubernetes.waiting import until

_SEVERITIES = {
    Level.GOOD: Severity.INFO,
    Level.UNKNOWN: Severity.INFO,
    Level.ATTENTION: Severity.WARNING,
    Level.BAD: Severity.ERROR,
}


@pytest.fixture
async def control(place: KubernetesPlace) -> ControlPlane:
    return ControlPlane(place.server)


class Found(dict[str, Finding]):
    """By code."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__({one.code: one for one in findings})
        for one in findings:
            assert CATALOGUE[one.code].severity is _SEVERITIES[one.level] or one.code.startswith("slices_")
        self.all = findings

    def of(self, area: Area) -> set[str]:
        return {one.code for one in self.all if one.area is area}


async def look(place: KubernetesPlace, told: Report | None = None) -> Found:
    """From a process of its own, as the pages do."""
    return Found(await place.cluster().diagnoser().findings(told))


# --- The API server ------------------------------------------------------------------------------------------------------
async def test_the_version_is_told_with_the_time_that_the_answer_took(
    place: KubernetesPlace, control: ControlPlane
) -> None:
    found = (await look(place))["server_answers"]
    assert found.level is Level.GOOD
    assert found.evidence["version"] == "v1.36.3"
    assert found.evidence["took_milliseconds"] >= 0


async def test_an_older_cluster_is_told(place: KubernetesPlace, control: ControlPlane) -> None:
    control.version = "v1.33.9-gke.1"
    assert (await look(place))["server_old"].level is Level.ATTENTION


async def test_a_server_that_is_away_is_a_finding_and_nothing_else_is_guessed(
    place: KubernetesPlace, control: ControlPlane
) -> None:
    place.server.away = True
    found = await look(place)
    assert set(found) == {"server_away", "controller_silent"}
    assert found["server_away"].level is Level.BAD
    place.server.away = False


# --- Watches -------------------------------------------------------------------------------------------------------------
def report(cluster: KubernetesCluster) -> Report:
    return Report(clock.now(), cluster.health())


async def test_watches_are_told_as_the_controller_tells_of_them(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    found = await look(place, report(cluster))
    told = {one.evidence["kind"]: one for one in found.all if one.area is Area.WATCHES}
    assert told.keys() == {
        *("pods", "nodes", "resourceclaims", "resourceslices", "persistentvolumeclaims"),
        *("namespaces", "deviceclasses", "events", "agents"),
    }
    assert {one.code for one in told.values()} == {"watch_fresh"}
    assert told["nodes"].evidence["objects"] == 1
    assert found["requests_served"].evidence["requests"] > 9


async def test_a_watch_that_is_lost_is_told_with_its_problem(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    fault = place.server.fail(403, "nodes", times=10_000)
    await place.server.end_watches("nodes")
    await until(lambda: not cluster._started().watches.nodes.fresh)
    found = [one for one in (await look(place, report(cluster))).all if one.area is Area.WATCHES]
    (lost,) = [one for one in found if one.level is not Level.GOOD]
    assert (lost.code, lost.level, lost.evidence["kind"]) == ("watch_stale", Level.BAD, "nodes")
    assert "403" in lost.evidence["problem"]
    fault.times = 0


async def test_a_controller_that_says_nothing_is_unknown_whatever_it_said_last(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    old = Report(clock.now() - timedelta(minutes=1), cluster.health())
    for told in (old, None):
        found = await look(place, told)
        assert found.of(Area.WATCHES) == {"controller_silent"}
        assert found["controller_silent"].level is Level.UNKNOWN
        assert "figures_arrive" not in found


async def test_requests_that_the_server_turned_away_are_counted(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    place.server.fail(429, "pods", method="POST", times=2)
    await cluster.apply(place.spec("a"))
    found = (await look(place, report(cluster)))["requests_refused"]
    assert (found.level, found.evidence["refused"]) == (Level.ATTENTION, 2)


# --- Rights --------------------------------------------------------------------------------------------------------------
def test_the_rights_that_are_asked_for_are_those_of_the_manifest() -> None:
    def plain(rules: Sequence[rights.Rule]) -> set[rights.Right]:
        return {rights.Right(one.group, one.resource, one.verb, one.name) for one in rights.rights_of(rules)}

    def given(role: str) -> set[rights.Right]:
        return {
            rights.Right(group, resource, verb, name)
            for rule in roles()[role]
            if "apiGroups" in rule and rule["apiGroups"] != ["flowcontrol.apiserver.k8s.io"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        }

    assert plain(rights.CLUSTER) == given("tessera")
    assert plain(rights.FIGURES) == given("tessera-figures")
    assert plain(rights.TENANT) == given("tessera-tenant")


async def test_the_account_of_the_manifest_lacks_nothing(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    assert (await look(place)).of(Area.RIGHTS) == {"rights_complete", "rights_no_tenants"}
    await cluster.apply(place.spec("a"))
    found = await look(place)
    assert found.of(Area.RIGHTS) == {"rights_complete", "rights_of_tenants_complete"}
    assert found["rights_complete"].evidence["account"] == ACCOUNT


async def test_each_right_that_is_missing_is_named(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    await cluster.apply(place.spec("a"))
    nodes = next(rule for rule in control.roles["tessera"] if rule.get("resources") == ["nodes"])
    nodes["verbs"] = ["get", "list"]
    tenant = control.roles["tessera-tenant"]
    tenant.remove(next(rule for rule in tenant if rule["resources"] == ["pods/exec", "pods/portforward"]))
    found = await look(place)
    assert found["rights_missing"].evidence["missing"] == ["watch nodes"]
    assert found["rights_missing"].command.endswith("portal-rights.yaml")
    missing = found["rights_of_tenants_missing"]
    assert (missing.level, missing.evidence["lacking"]) == (Level.BAD, 4)
    assert missing.evidence["missing"][0] == "get pods/exec -n tessera-physics"


async def test_rules_that_are_not_told_in_full_are_unknown(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    await cluster.apply(place.spec("a"))
    control.authorises = False
    found = await look(place)
    assert found["rights_of_tenants_unknown"].level is Level.UNKNOWN
    assert "rights_of_tenants_complete" not in found


async def test_an_administrators_account_is_more_than_needed(place: KubernetesPlace, control: ControlPlane) -> None:
    control.roles["tessera"].append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    found = await look(place)
    assert found.of(Area.RIGHTS) == {"rights_unlimited"}
    assert found["rights_unlimited"].level is Level.ATTENTION


# --- Giving out cards ----------------------------------------------------------------------------------------------------
async def test_what_is_needed_for_parts_of_cards_is_on_by_the_servers_own_metrics(
    place: KubernetesPlace, control: ControlPlane
) -> None:
    async with place.cards("h100,h100"):
        found = await look(place)
    features = [one for one in found.all if one.code == "feature_on"]
    assert [one.evidence["feature"] for one in features] == [
        *("DynamicResourceAllocation", "DRAConsumableCapacity", "DRADeviceTaints")
    ]
    assert found["slices_dra"].level is Level.GOOD
    assert found["dra_served"].evidence["versions"] == ["v1"]
    assert found["cards_offered"].evidence == {"cards": 2, "slices": 1}
    assert found["parts_not_given_yet"].level is Level.UNKNOWN


async def test_a_switch_that_is_off_is_told(place: KubernetesPlace, control: ControlPlane) -> None:
    control.metrics = control.metrics.replace(
        'ConsumableCapacity",stage="BETA"} 1', 'ConsumableCapacity",stage="BETA"} 0'
    )
    found = (await look(place))["feature_off"]
    assert (found.level, found.evidence["feature"]) == (Level.BAD, "DRAConsumableCapacity")


async def test_without_metrics_only_what_was_seen_is_good(place: KubernetesPlace, control: ControlPlane) -> None:
    control.forbidden.add("/metrics")
    async with place.cards():
        found = await look(place)
    assert found["feature_seen"].evidence["feature"] == "DRAConsumableCapacity"
    unknown = [one for one in found.all if one.code == "feature_unknown"]
    assert {one.evidence["feature"] for one in unknown} == {"DynamicResourceAllocation", "DRADeviceTaints"}
    assert all(one.level is Level.UNKNOWN and "kubectl" in one.command for one in unknown)
    assert "cannot get path" in found["priority_unknown"].evidence["problem"]


async def test_that_the_scheduler_gives_parts_is_seen_by_a_part(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    async with place.cards():
        await cluster.apply(place.spec("a", gpu=GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=300)))
        await until(lambda: any(one.get("status") for one in place.server.all("resourceclaims")))
        assert (await look(place))["parts_given"].evidence["parts"] == 1


async def test_a_server_without_claims_is_told(place: KubernetesPlace, control: ControlPlane) -> None:
    control.groups = []
    place.server.served -= {"resourceclaims", "resourceslices", "deviceclasses"}
    found = await look(place)
    assert found["dra_not_served"].level is Level.ATTENTION
    assert found["slices_none"].level is Level.ATTENTION


# --- Rate limits -----------------------------------------------------------------------------------------------------------
def program(name: str, *words: str) -> dict[str, Any]:
    """As kubeadm runs it: a pod of the kubelet, with its command line."""
    meta = {
        "name": f"{name}-control-1",
        "namespace": "kube-system",
        "labels": {"component": name, "tier": "control-plane"},
    }
    return {"metadata": meta, "spec": {"containers": [{"name": name, "command": [name, *words]}]}}


async def test_limits_are_read_from_the_command_lines_of_the_control_planes_pods(
    place: KubernetesPlace, control: ControlPlane
) -> None:
    place.server.put("pods", program("kube-controller-manager", "--leader-elect=true"))
    place.server.put("pods", program("kube-scheduler", "--kube-api-qps", "200", "--kube-api-burst=400"))
    found = await look(place)
    low = found["volumes_limit_low"]
    assert (low.level, low.evidence["queries_per_second"], low.evidence["starts_per_second"]) == (
        Level.ATTENTION,
        20,
        5,
    )
    assert found["scheduler_limit_enough"].evidence["starts_per_second"] == 50
    place.server.put("pods", program("kube-controller-manager", "--kube-api-qps=100", "--kube-api-burst=200"))
    assert "volumes_limit_enough" in await look(place)


async def test_a_limit_in_a_file_is_unknown_and_never_good(place: KubernetesPlace, control: ControlPlane) -> None:
    place.server.put("pods", program("kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml", "--kube-api-qps=500"))
    found = (await look(place))["scheduler_limit_unknown"]
    assert found.level is Level.UNKNOWN
    assert "configz" in found.command


async def test_the_queue_of_our_requests_is_named_with_its_seats(place: KubernetesPlace, control: ControlPlane) -> None:
    served = (await look(place))["priority_serves"]
    assert served.evidence == {
        **{"flow_schema": "service-accounts", "priority_level": "workload-low", "seats": 245, "rejected": 0}
    }
    labels = 'flow_schema="service-accounts",priority_level="workload-low",reason="time-out"'
    control.metrics += f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} 3\n"
    refused = (await look(place))["priority_refuses"]
    assert (refused.level, refused.evidence["rejected"]) == (Level.ATTENTION, 3)


# --- Nodes and agents ----------------------------------------------------------------------------------------------------
async def test_agents_are_told_by_nodes(place: KubernetesPlace, control: ControlPlane) -> None:
    server = place.server
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.2.9"}
    server.patch("nodes", "node-1", {"status": {"nodeInfo": info}})
    async with place.cards():
        server.patch(
            "pods",
            "tessera-node-agent-1",
            {
                "spec": {
                    "nodeName": "node-1",
                    "containers": [{"image": "registry.example.org/tessera/node-agent:0.1.0"}],
                },
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        )
        found = await look(place)
        assert found["agents_ready"].evidence == {"agents": 1, "images": ["node-agent:0.1.0"]}
        assert found["programs_new"].evidence["runtimes"] == ["containerd://2.2.9"]
        assert found["nodes_ready"].evidence["nodes"] == 1

        server.put("nodes", node("node-2"))
        server.put("nodes", node("node-3", ready=False, labels={"nvidia.com/gpu.present": "true"}))
        server.patch(
            "nodes", "node-2", {"status": {"nodeInfo": {**info, "containerRuntimeVersion": "containerd://1.7.9"}}}
        )
        server.patch("pods", "tessera-node-agent-1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        server.drop("resourceslices", f"node-1-{names.DRIVER}")
        found = await look(place)
        assert found["agents_not_ready"].evidence["where"] == ["node-1"]
        assert found["agents_missing"].evidence["where"] == ["node-3"]
        assert (found["agents_perhaps_missing"].level, found["agents_perhaps_missing"].evidence["where"]) == (
            *(Level.UNKNOWN, ["node-2"]),
        )
        assert found["agents_without_slice"].evidence["where"] == ["node-1"]
        assert found["nodes_not_ready"].evidence["where"] == ["node-3"]
        assert found["runtimes_old"].evidence["where"] == ["node-2", "node-3"]
        assert found["cards_not_offered"].level is Level.BAD


async def test_agents_whose_figures_do_not_come_are_named(
    place: KubernetesPlace, control: ControlPlane, cluster: KubernetesCluster
) -> None:
    async with place.cards():
        await anext(cluster.samples())
        assert (await look(place, report(cluster)))["figures_arrive"].evidence["agents"] == 1
        await place.machines.agent.stop()
        await until(lambda: cluster._started().figures.silent)
        found = (await look(place, report(cluster)))["figures_missing"]
        assert (found.level, found.evidence["where"]) == (Level.ATTENTION, ["node-1"])


async def test_what_may_not_be_seen_hides_nothing_else(place: KubernetesPlace, control: ControlPlane) -> None:
    kinds = ("nodes", "resourceslices", "resourceclaims", "flowschemas", "namespaces")
    faults = [place.server.fail(403, plural, times=100) for plural in kinds]
    found = await look(place)
    hidden = {"nodes_unknown", "slices_unknown", "priority_unknown", "rights_unknown"}
    assert hidden <= found.keys()
    assert {found[code].level for code in hidden} == {Level.UNKNOWN}
    assert {"server_answers", "dra_served", "feature_on"} <= found.keys()
    for fault in faults:
        fault.times = 0
