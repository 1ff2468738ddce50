"""Ends of runs and what they leave, other processes that read, figures: while the cluster misbehaves."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from apps.cluster.drivers.kubernetes import KubernetesCluster, names
from apps.cluster.drivers.kubernetes.api import ClusterUnavailable
from apps.cluster.specs import RunState, Volume
from apps.core.errors import NotFound, Unavailable
from apps.core.share import GIB, GpuShare
from tests.contract.watching import Watcher, until_seen, watching
from tests.kubernetes.agents import Agent
from tests.kubernetes.place import QUICK, KubernetesPlace
from tests.kubernetes.waiting import NAME, pod_of, until

THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=1000)


@pytest.fixture(autouse=True)
async def quickly_stale(place: KubernetesPlace) -> None:
    place.timing = replace(QUICK, stale=0.3)


def _has_left(pod: Callable[[], dict[str, Any] | None], seconds: int) -> bool:
    """Whether it is to end within so many."""
    found = pod()
    return found is not None and found["metadata"].get("deletionGracePeriodSeconds") == seconds


def _is_empty(place: KubernetesPlace, plural: str) -> bool:
    return place.server.all(plural) == []


# --- Ends ----------------------------------------------------------------------------------------------------------------
async def test_a_finalizer_that_does_not_go_is_said_and_nothing_is_taken_for_gone(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    place.server.patch("pods", NAME, {"metadata": {"finalizers": ["example.com/hold"]}})
    await cluster.delete("a", grace_seconds=1)
    stuck = await watch.until("a", RunState.STOPPING, "finalizer_stuck")
    assert stuck.evidence["finalizers"] == ["example.com/hold"]
    assert (await cluster.delete("a", grace_seconds=1)).state is RunState.STOPPING
    place.server.drop("pods", NAME)
    assert (await watch.until("a", RunState.EXITED)).reason == ""


async def test_of_several_that_end_it_the_shortest_grace_counts(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "deaf"))
    await watch.until("a", RunState.READY)
    for grace, left in ((600, 600), (900, 600), (0, 1)):
        await cluster.delete("a", grace_seconds=grace)
        await until(partial(_has_left, lambda: pod_of(place), left))
        await until(partial(_has_left, lambda: cluster._started().world.newest("a"), left))
    await watch.until("a", RunState.EXITED)


async def test_a_later_run_begins_although_the_server_was_away_when_the_first_one_ended(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    place.server.fail(503, "secrets", method="POST", times=2)
    await cluster.apply(place.spec("a", run=2))
    await watch.until("a", RunState.READY, run=2)
    assert [one["metadata"]["name"] for one in place.server.all("pods")] == ["w-a-2"]


async def test_what_a_run_needed_goes_with_it(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.cards("h100")
    await cluster.apply(place.spec("a", gpu=THIRD))
    await watch.until("a", RunState.READY)
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    for kind in ("secrets", "resourceclaims", "pods"):
        await until(partial(_is_empty, place, kind))
    assert len(place.server.all("persistentvolumeclaims")) == 1


async def test_what_a_killed_controller_left_is_swept_away_and_nothing_else(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    labels = pod_of(place)["metadata"]["labels"]
    old = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    for name, made in (("w-b-1", old), ("w-c-1", datetime.now(UTC).isoformat())):
        meta = {"name": name, "namespace": "tessera-physics", "creationTimestamp": made}
        meta["labels"] = {**labels, names.WORKLOAD: name[2:3]}  # type: ignore[assignment]
        place.server.put("secrets", {"metadata": meta})
    place.server.patch("secrets", NAME, {"metadata": {"creationTimestamp": old}})
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    await until(lambda: sorted(one["metadata"]["name"] for one in place.server.all("secrets")) == [NAME, "w-c-1"])
    await successor.close()


async def test_a_finished_pod_is_kept_for_its_output_and_not_for_ever(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "say", "2"))
    await watch.until("a", RunState.EXITED)
    await cluster.delete("a", grace_seconds=1)
    assert "line 1" in (await cluster.logs("a")).text
    await cluster.close()
    place.timing = replace(place.timing, keep_finished=timedelta(seconds=-1))
    successor = place.cluster()
    await successor.start()
    await until(lambda: place.server.all("pods") == [])
    await successor.close()


async def test_a_volume_is_removed_with_the_finished_pods_that_hold_it_back(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "say", "1"))
    await watch.until("a", RunState.EXITED)
    claim = place.server.all("persistentvolumeclaims")[0]["metadata"]["name"]
    place.server.patch("persistentvolumeclaims", claim, {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    await until(lambda: cluster._started().world.volumes["tessera-physics", claim]["metadata"].get("finalizers"))
    removing = asyncio.create_task(cluster.remove_volume("home-a"))
    await until(lambda: place.server.all("pods") == [])
    await until(lambda: place.server.one("persistentvolumeclaims", claim)["metadata"].get("deletionTimestamp"))
    await until(lambda: cluster._started().world.volumes["tessera-physics", claim]["metadata"].get("deletionTimestamp"))
    with pytest.raises(ClusterUnavailable, match="just being removed"):
        await cluster.apply(place.spec("b", volumes=(Volume("home-a", "~"),)))
    assert not removing.done()
    place.server.drop("persistentvolumeclaims", claim)
    await removing


# --- Readers -------------------------------------------------------------------------------------------------------------
async def test_a_reader_dials_the_run_that_is_there_now(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    reader = place.cluster()
    with pytest.raises(NotFound):
        await reader.dial("a", "http")
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    first = await reader.dial("a", "http")
    await cluster.apply(place.spec("a", run=2))
    await watch.until("a", RunState.READY, run=2)
    second = await reader.dial("a", "http")
    assert (first.host, first.headers) != (second.host, second.headers)
    place.server.away = True
    await place.server.end_watches("pods")
    await until(lambda: not reader._dialler()._pods.fresh)
    with pytest.raises(Unavailable):
        await reader.dial("a", "http")
    place.server.away = False
    await until_seen(cluster, "a", RunState.READY)
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    with pytest.raises(NotFound):
        await reader.dial("a", "http")
    await reader.close()


async def test_a_reader_explains_why_somebody_waits(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    place.machines.cards("h100")
    await cluster.apply(place.spec("a", gpu=GpuShare(1, GIB, 1000, 1000)))
    await watch.until("a", RunState.READY)
    await cluster.apply(place.spec("b", gpu=THIRD))
    started = await watch.until("b", RunState.WAITING, "waiting_card")
    seen = await place.cluster().get("b")
    assert (seen.state, seen.reason, seen.evidence) == (started.state, started.reason, started.evidence)
    assert (await place.cluster().inventory()).cards == (await cluster.inventory()).cards


async def test_a_run_that_has_begun_can_be_dialled_without_another_question(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """Its token is read while its program comes up, so that the first visit does not wait for the API server."""
    reader = place.cluster()
    with pytest.raises(NotFound):
        await reader.dial("a", "http")  # from here on it follows the pods
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    await until(lambda: reader._dialler()._maker.tokens)
    place.server.fail(403, "secrets", method="GET", times=100)
    assert (await reader.dial("a", "http")).headers == (await cluster.dial("a", "http")).headers
    await reader.close()


async def test_that_it_answers_is_told_before_it_is_written_down(place: KubernetesPlace) -> None:
    """Nobody who waits for it waits for that; another process says until then what it can know."""
    place.timing = replace(place.timing, mark=3600.0)
    driver = place.cluster()
    await driver.start()
    async with watching(driver) as watch:
        await driver.apply(place.spec("a"))
        await watch.until("a", RunState.READY)
    assert names.READY not in pod_of(place)["metadata"]["annotations"]
    assert (await place.cluster().get("a")).state is RunState.STARTING
    await driver.close()
    successor = place.cluster()
    await successor.start()
    await until_seen(successor, "a", RunState.READY)  # it asks by itself
    await successor.close()


async def test_that_it_answered_is_known_to_every_other_process(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    place.server.fail(503, "pods", method="PATCH")
    await watch.until("a", RunState.READY)
    await until(lambda: names.READY in pod_of(place)["metadata"]["annotations"])
    await until_seen(place.cluster(), "a", RunState.READY)


# --- Figures -------------------------------------------------------------------------------------------------------------
async def test_an_agent_that_falls_silent_is_told_and_comes_back(
    place: KubernetesPlace, cluster: KubernetesCluster
) -> None:
    async with place.cards():
        batches = cluster.samples()
        assert await anext(batches)
        await place.machines.agent.stop()
        await until(lambda: cluster._started().figures.silent)
        assert "agents_silent" in (await cluster.inventory()).notes
        place.machines.agent = Agent(place.server, place.machines.agent.address)
        await place.machines.agent.start()
        assert await anext(batches)
        assert "agents_silent" not in (await cluster.inventory()).notes


async def test_the_agents_word_may_lie_in_a_file(place: KubernetesPlace, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("wrong\n")
    driver = place.cluster(agent_token_file=str(tmp_path / "token"))
    await driver.start()
    async with place.cards():
        await until(lambda: driver._started().figures.silent)
        (tmp_path / "token").write_text("a-token-of-the-agents\n")
        assert await anext(driver.samples())
    await driver.close()


async def test_the_operator_is_told_how_the_watches_are(place: KubernetesPlace, cluster: KubernetesCluster) -> None:
    told = {one["kind"]: one for one in cluster.health()["watches"]}
    assert told["pods"]["fresh"]
    assert told["pods"]["lists"] == 1
    assert cluster.choice().reason == "slices_dra"
