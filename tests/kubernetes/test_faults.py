"""The driver while its cluster misbehaves: unknown is unknown, nothing runs twice, nothing is left, and each trouble has its reason."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.cluster.drivers.kubernetes import KubernetesCluster, names
from apps.cluster.drivers.kubernetes.api import ClusterUnavailable
from apps.cluster.specs import RunState
from apps.core.errors import Conflict, InvalidInput, NeverFits, Unavailable
from apps.core.reason_texts import CATALOGUE
from apps.core.share import GIB, GpuShare
from tests.contract.watching import Watcher, facts, until_seen
from tests.kubernetes.machines import NODE, node
from tests.kubernetes.place import QUICK, KubernetesPlace
from tests.kubernetes.server import Refused
from tests.kubernetes.waiting import NAME, pod_of, until

THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=1000)


@pytest.fixture(autouse=True)
async def quickly_stale(place: KubernetesPlace) -> None:
    place.timing = replace(QUICK, stale=0.3, request=1.0)


# --- The API server is away ----------------------------------------------------------------------------------------------
async def test_while_the_server_is_away_everything_is_unknown_and_nothing_is_concluded(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    told = len(watch.seen)
    place.server.away = True
    await place.server.end_watches("pods")
    seen = await until_seen(cluster, "a", RunState.UNKNOWN)
    assert (seen.run, seen.reason) == (1, "cluster_unknown")
    assert datetime.fromisoformat(seen.evidence["since"]) <= datetime.now(UTC)
    assert [one.state for one in await cluster.list()] == [RunState.UNKNOWN]
    for refused in (
        cluster.apply(place.spec("b")),
        cluster.delete("a", grace_seconds=1),
        cluster.inventory(),
        cluster.dial("a", "http"),
        cluster.remove_volume("home-a"),
    ):
        with pytest.raises(Unavailable) as why:
            await refused
        assert why.value.code in CATALOGUE
    assert watch.seen[told:] == []
    place.server.away = False
    await until_seen(cluster, "a", RunState.READY)
    assert (await facts(cluster, "a"))["authorised"]
    assert watch.states("a")[-1] is RunState.READY


async def test_what_ended_while_the_server_was_away_is_seen_when_it_is_back(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    place.server.away = True
    for kind in ("pods", "resourceclaims"):
        await place.server.end_watches(kind)
    await until(lambda: not cluster._started().watches.pods.fresh)
    place.server.drop("pods", NAME)
    place.server.forget("pods")
    place.server.away = False
    ended = await watch.until("a", RunState.EXITED)
    assert ended.reason == "lost"


async def test_a_driver_that_cannot_list_says_what_stands_in_the_way(place: KubernetesPlace) -> None:
    place.timing = replace(place.timing, start=0.5)
    fault = place.server.fail(403, "nodes", times=1000)
    driver = place.cluster()
    with pytest.raises(ClusterUnavailable, match="nodes: 403 Forbidden"):
        await driver.start()
    with pytest.raises(Unavailable):
        await driver.apply(place.spec("a"))
    await driver.close()
    fault.times = 0


# --- Creates -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("plural", "method"),
    [("namespaces", "PATCH"), ("persistentvolumeclaims", "POST"), ("secrets", "POST"), ("resourceclaims", "POST"), ("pods", "POST")],
)  # fmt: skip
async def test_a_create_whose_answer_never_came_is_met_again(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher, plural: str, method: str
) -> None:
    place.machines.cards("h100")
    once = iter([True])

    async def done_and_never_answered(request: Any) -> Any:
        await place.server._serve(request)
        await asyncio.Event().wait()

    def is_first(request: Any) -> bool:
        wanted = str(request.method.value) == method and f"/{plural}" in request.url.path
        return wanted and (request.id in hit or (next(once, False) and not hit.add(request.id)))  # type: ignore[func-returns-value]

    hit = set[int]()
    place.server[is_first] << done_and_never_answered
    spec = place.spec("a", gpu=THIRD)
    with pytest.raises(ClusterUnavailable):
        await cluster.apply(spec)
    await cluster.apply(spec)
    await watch.until("a", RunState.READY)
    assert (await facts(cluster, "a"))["authorised"]
    for kind in ("pods", "secrets", "resourceclaims", "persistentvolumeclaims"):
        assert len(place.server.all(kind)) == 1, kind


async def test_a_scheduler_that_overlooks_room_is_woken(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.cards("h100")
    place.machines.overlooks = 2  # the second time when it looks again: it is woken once more
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.WAITING, "placing_pod")
    await watch.until("a", RunState.READY)
    assert place.machines.overlooks == 0


async def test_nobody_is_woken_while_there_is_no_room(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.cards("h100")
    await cluster.apply(place.spec("a", gpu=GpuShare(1, GIB, 1000, 1000)))
    await watch.until("a", RunState.READY)
    await cluster.apply(place.spec("b", gpu=THIRD))
    await watch.until("b", RunState.WAITING, "waiting_card")
    woken = place.server.one("deviceclasses", names.WAKING)
    await asyncio.sleep(4 * place.timing.overlooked)  # nothing tells of what does not happen
    assert place.server.one("deviceclasses", names.WAKING) == woken


async def test_an_object_of_somebody_else_under_our_name_is_in_the_way(
    place: KubernetesPlace, cluster: KubernetesCluster
) -> None:
    await cluster.apply(place.spec("b"))
    place.server.put("secrets", {"metadata": {"name": NAME, "namespace": "tessera-physics"}})
    with pytest.raises(Conflict, match="belongs to somebody else"):
        await cluster.apply(place.spec("a"))
    assert all(one["metadata"]["name"] != NAME for one in place.server.all("pods"))


async def test_a_namespace_of_somebody_else_is_not_taken(place: KubernetesPlace, cluster: KubernetesCluster) -> None:
    place.server.put("namespaces", {"metadata": {"name": "tessera-physics", "labels": {"owner": "others"}}})
    with pytest.raises(Conflict, match="does not belong to this portal"):
        await cluster.apply(place.spec("a"))
    assert place.server.all("networkpolicies") == []


@pytest.mark.parametrize(
    ("status", "message", "error", "code"),
    [
        (403, "pods is forbidden: exceeded quota: tessera", ClusterUnavailable, "cluster_quota"),
        (403, 'pods is forbidden: User "x" cannot create', ClusterUnavailable, "cluster_forbidden"),
        (403, 'pods "w-a-1" is forbidden: violates PodSecurity "restricted"', InvalidInput, "start_failed"),
        (422, "Pod is invalid: spec.hostname", InvalidInput, "start_failed"),
        (500, "etcdserver: request timed out", ClusterUnavailable, "cluster_unavailable"),
    ],
)
async def test_each_refusal_has_its_code(
    place: KubernetesPlace, cluster: KubernetesCluster, status: int, message: str, error: type[Exception], code: str
) -> None:
    place.server["post", lambda request: request.url.path.endswith("/pods")] << Refused(status, message)
    with pytest.raises(error) as refused:
        await cluster.apply(place.spec("a"))
    assert refused.value.code == code  # type: ignore[attr-defined]
    assert code in CATALOGUE
    assert refused.value.evidence["problem"] == message  # type: ignore[attr-defined]


async def test_a_busy_server_is_waited_for(place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher) -> None:
    first = len(place.server._requests)
    busy = iter(range(2))
    hit = set[int]()

    def is_next(request: Any) -> bool:
        wanted = request.id >= first and str(request.method.value) == "POST"
        if wanted and request.id not in hit and next(busy, None) is not None:
            hit.add(request.id)
        return request.id in hit

    place.server[is_next] << 429 << {"Retry-After": "0"}
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    assert len(hit) == 2


async def test_a_share_that_the_cluster_cannot_express_is_refused_before_anything_is_made(
    place: KubernetesPlace,
) -> None:
    driver = place.cluster(adapter="hami")
    await driver.start()
    with pytest.raises(NeverFits) as refused:
        await driver.apply(place.spec("a", gpu=replace(THIRD, compute=305)))
    assert refused.value.evidence["nearest"]["compute"] == 310
    assert place.server.calls == []
    await driver.close()


# --- Pods and nodes ------------------------------------------------------------------------------------------------------
async def test_an_evicted_pod_ends_with_the_reason(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}
    place.server.patch("pods", NAME, {"status": evicted})
    ended = await watch.until("a", RunState.EXITED)
    assert (ended.reason, ended.cards, ended.evidence["node"]) == ("evicted", (), NODE)


async def test_one_that_is_drained_away_ends_with_the_reason_when_it_is_gone(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}
    place.server.patch("pods", NAME, {"status": {"conditions": [condition]}})
    place.server._begin_to_end(pod_of(place), 1)
    await watch.until("a", RunState.STOPPING)
    assert (await watch.until("a", RunState.EXITED)).reason == "evicted"


async def test_on_a_silent_node_it_is_unknown_until_the_node_speaks_or_is_gone(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    place.server.put("nodes", node(ready=False))
    unknown = await watch.until("a", RunState.UNKNOWN, "node_silent")
    assert unknown.evidence["node"] == NODE
    place.server.put("nodes", node())
    await watch.until("a", RunState.READY)
    place.server.put("nodes", node(ready=False))
    place.server.drop("nodes", NODE)
    await watch.until("a", RunState.UNKNOWN, "node_silent")
    place.server.drop("pods", NAME)  # by the cluster's own collector
    assert (await watch.until("a", RunState.EXITED)).reason == "node_gone"


async def test_an_image_that_cannot_be_fetched_is_said(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.images.clear()
    await cluster.apply(place.spec("a"))
    seen = await watch.until("a", RunState.PREPARING, "image_unavailable")
    assert (seen.evidence["image"], "not found" in seen.evidence["problem"]) == ("contract", True)
    await cluster.delete("a", grace_seconds=1)
    await watch.until("a", RunState.EXITED)


async def test_a_volume_that_does_not_bind_is_said(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.schedules = False
    await cluster.apply(place.spec("a"))
    message = "pod has unbound immediate PersistentVolumeClaims"
    unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    place.server.patch("pods", NAME, {"status": {"conditions": [unbound]}})
    assert (await watch.until("a", RunState.WAITING, "volume_not_bound")).evidence == {"problem": message}


async def test_a_claim_that_is_not_prepared_is_said(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.cards("h100")
    place.machines.prepares = False
    await cluster.apply(place.spec("a", gpu=THIRD))
    seen = await watch.until("a", RunState.PREPARING, "claim_not_prepared")
    assert "not registered" in seen.evidence["problem"]
    assert seen.cards == (f"GPU-{NODE}-0",)


@pytest.mark.parametrize("kind", ["persistentvolumeclaims", "secrets", "resourceclaims", "pods"])
async def test_many_that_are_made_at_once_in_one_namespace_are_all_made(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher, kind: str
) -> None:
    """The API server counts them against the namespace's quota, one after the other, and refuses whom it could not count."""
    place.machines.cards("h100")
    place.server.fail(409, kind, method="POST", times=3)
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.READY)
    assert len(place.server.all(kind)) == 1


async def test_a_namespace_whose_quota_cannot_be_counted_is_tried_again_later(
    place: KubernetesPlace, cluster: KubernetesCluster
) -> None:
    fault = place.server.fail(409, "persistentvolumeclaims", method="POST", times=100)
    with pytest.raises(ClusterUnavailable):
        await cluster.apply(place.spec("a"))
    fault.times = 0
    await cluster.apply(place.spec("a"))


TOO_EARLY = (
    "FailedMount",
    "Unable to attach or mount volumes: unmounted volumes=[volume-0], unattached volumes=[], failed to process volumes=[volume-0]: error "
    'processing PVC: failed to fetch PVC from API server: persistentvolumeclaims "v-1" is forbidden: User "system:node:node-1" cannot get '
    "resource \"persistentvolumeclaims\": no relationship found between node 'node-1' and this object",
)


@pytest.mark.parametrize("complaint", [None, TOO_EARLY])
async def test_the_kubelet_is_made_to_look_again_until_it_is_content(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher, complaint: tuple[str, str] | None
) -> None:
    """By itself it would wait for ten seconds or for a minute; each complaint of its is answered once."""
    place.machines.cards("h100")
    place.machines.prepares = False
    place.machines.complaint = complaint or place.machines.complaint
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.PREPARING, "volume_not_mounted" if complaint else "claim_not_prepared")
    first = await prodded(place, None)
    assert await prodded(place, first) > first
    place.machines.prepares = True
    await watch.until("a", RunState.READY)
    await until(lambda: names.READY in pod_of(place)["metadata"]["annotations"])  # a change of the portal's own
    told = [call for call in place.server.calls if call == f"PATCH /api/v1/namespaces/tessera-physics/pods/{NAME}"]
    place.machines.event(pod_of(place), "FailedPrepareDynamicResources", "This complaint comes late.")
    await until(lambda: "late" in str(cluster._started().world.troubles))
    await cluster.delete("a", grace_seconds=1)
    await watch.until("a", RunState.EXITED)
    assert [call for call in place.server.calls if call in told] == told, "who runs is left alone"


async def test_a_volume_that_is_slow_to_come_is_left_to_the_kubelet(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """It looks again by itself, again and again: being asked would only make it look more often."""
    place.machines.cards("h100")
    place.machines.prepares = False
    place.machines.complaint = ("FailedMount", "MountVolume.SetUp failed: the server of the volume does not answer")
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.PREPARING, "volume_not_mounted")
    await asyncio.sleep(4 * place.timing.prods[0])  # nothing tells of what does not happen
    assert names.PRODDED not in pod_of(place)["metadata"].get("annotations", {})


async def prodded(place: KubernetesPlace, before: str | None) -> str:
    """When that was, later than `before`."""

    def now() -> str | None:
        found: str | None = pod_of(place)["metadata"].get("annotations", {}).get(names.PRODDED)
        return found

    await until(lambda: now() != before)
    return now() or ""


async def test_a_card_that_falls_ill_is_shown_and_comes_back(
    place: KubernetesPlace, cluster: KubernetesCluster
) -> None:
    place.machines.cards("h100")
    await until(lambda: cluster._started().world.cards())
    slice_ = place.server.all("resourceslices")[0]
    sick = {"key": "gpu.tessera.dev/unhealthy", "value": "xid_79", "effect": "NoSchedule"}
    ill = {**slice_["spec"], "devices": [{**slice_["spec"]["devices"][0], "taints": [sick]}]}
    place.server.put("resourceslices", {**slice_, "spec": ill})
    await until(lambda: not cluster._started().world.cards()[0].healthy)
    (card,) = (await cluster.inventory()).cards
    assert card.health_reason == "xid_79"
    place.server.put("resourceslices", {**slice_, "spec": slice_["spec"]})
    await until(lambda: cluster._started().world.cards()[0].healthy)
    place.server.drop("resourceslices", slice_["metadata"]["name"])
    await until(lambda: not cluster._started().world.cards())
    assert (await cluster.inventory()).cards == ()
