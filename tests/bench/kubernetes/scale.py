"""Rates on fake nodes: how fast the portal accepts, how fast what it accepts gets its place, how soon a new controller knows everything."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from statistics import mean, median, quantiles
from typing import Any, Final

from apps.cluster.drivers.kubernetes import encoding
from tests.bench.kubernetes import crowd
from tests.bench.kubernetes.bare import Pattern
from tests.bench.kubernetes.connection import Connected
from tests.bench.kubernetes.observer import Observer
from tests.bench.kubernetes.rig import GIB, NAMESPACE, Rig, load, rig, until
from tests.cluster.cluster import Options
from vcuda.bench.figure import Figure

RATE, SECONDS = 50, 10  # of the creates that are accepted
PODS: Final = 500  # of each turn of creates
NODES: Final = 1000
BEHIND: Final = 19  # nice value of the cluster's processes where the portal's answers are measured
ANSWERING: Final = 2  # processes of the portal that answer: one for each core, as docs/operations/settings.md advises
ADVISED: Final = 10  # per cent of the nodes that the scheduler scores, as docs/operations/kubernetes.md says
RESTARTED: Final = 3000
CLASS: Final = "bench"
_CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
ASKED: Final = {
    "tenant": "vision-lab",
    "environment": "notebook",
    "resources": {
        "gpu": {"count": 1, "memory_bytes": 8 * GIB, "compute_permille": 300, "ceiling_permille": 300},
        "cpu_milli": 500,
        "ram_bytes": GIB,
    },
}


def volumes(made: Rig, count: int, first: int = 0) -> None:
    """Enough for `count` homes: nobody makes volumes on fake nodes."""
    storage = {
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }
    ready = [("/apis/storage.k8s.io/v1/storageclasses", storage)]
    each = [[("/api/v1/persistentvolumes", _volume(number))] for number in range(first, first + count)]
    crowd.make(made.cluster.kubeconfig, [ready, *each])


def _volume(number: int) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": CLASS,
        "hostPath": {"path": "/nowhere"},
    }
    return {"metadata": {"name": f"bench-{number:05d}"}, "spec": spec}


def _raise_backstop(made: Rig) -> None:
    """The tenant's namespace is held to 500 pods, whatever its quota in the portal."""
    hard = {"spec": {"hard": {"pods": "10000", "persistentvolumeclaims": "10000"}}}
    words = (
        "patch",
        "resourcequota",
        "tessera",
        f"--namespace={NAMESPACE}",
        "--type=merge",
        f"--patch={json.dumps(hard)}",
    )
    made.cluster.kubectl(*words)


# --- Accepting -----------------------------------------------------------------------------------------------------------
def accept() -> list[Figure]:
    options = Options(real=False, fake_nodes=100, percentage_of_nodes=ADVISED)
    with rig(options, nice=BEHIND, TESSERA_STORAGE_CLASS=CLASS, TESSERA_WEB_PROCESSES=str(ANSWERING)) as made:
        volumes(made, RATE * SECONDS + 40)
        asyncio.run(crowd.ask(made.apis, ASKED, 30))  # not counted: each process loads everything once
        time.sleep(2)
        sent = asyncio.run(crowd.ask(made.apis, ASKED, RATE * SECONDS, rate=RATE))
    refused = [one for one in sent if one.status != 202]  # counted with the time after which they were told so
    took = [one.seconds for one in sent]
    p95 = quantiles(took, n=20)[-1]
    method = (
        f"{RATE} POSTs a second for {SECONDS} s by ten people, sent whether or not earlier ones were answered, to a portal that makes the pods "
        f"meanwhile on a real control plane with 100 fake nodes, SQLite, "
        f"{ANSWERING} web processes; {len(refused)} were told to try again; median {median(took) * 1000:.0f} ms, "
        f"worst {max(took) * 1000:.0f} ms; client, portal and cluster (which has machines of its own elsewhere, so: nice {BEHIND}) on {load()}"
    )
    return [Figure(name="kubernetes.accept.p95", value=round(p95 * 1000, 1), unit="ms", bar=200, method=method)]


# --- Creating ------------------------------------------------------------------------------------------------------------
def creates() -> list[Figure]:
    """By hand, through the portal, by hand: the same pods with the same claims and volumes.

    The cluster has half of the cores for itself in all three: on shared ones this would tell how much work the portal is, not whether it
    keeps up. How much work it is, is a figure of its own.
    """
    options = Options(real=False, fake_nodes=NODES, percentage_of_nodes=ADVISED)
    with (
        rig(options, apart=True, TESSERA_STORAGE_CLASS=CLASS) as made,
        Observer(made.cluster.kubeconfig) as observer,
    ):
        volumes(made, 3 * PODS + 20)
        (first,) = asyncio.run(crowd.ask(made.apis, ASKED, 1))
        until(lambda: bool(observer.seen().bound), "the first pod has its place")
        _raise_backstop(made)
        pattern = Pattern(Connected(made.cluster.kubeconfig), first.id)
        before = _by_hand(made, observer, pattern, "before")
        used = made.cpu()
        ours, posted = _through_the_portal(made, observer)
        portal_ms, cluster_ms = ((now - then) / PODS * 1000 for now, then in zip(made.cpu(), used, strict=True))
        print(f"  by hand {before:.1f} a second, ours {ours:.1f}, all accepted after {posted:.1f} s", flush=True)
        after = _by_hand(made, observer, pattern, "after")
        seen = observer.seen()
    base = mean((before, after))
    method = (
        f"{NODES} fake nodes with 8 cards each, scheduler and controller manager with raised limits, percentageOfNodesToScore {ADVISED}; {PODS} pods "
        f"from the first request to the last that has its place: {ours:.1f} a second through the portal (all accepted after {posted:.1f} s), by hand "
        f"{before:.1f} before and {after:.1f} after (volume and pod for each, one claim template, 32 at once); the cluster on one half of "
        f"the cores, portal and clients on the other; CPU time of a create: portal {portal_ms:.0f} ms, cluster {cluster_ms:.0f} ms; {load()}"
    )
    watched = (
        f"sum of what claims hold of each card, at each of {seen.events} events about claims in that run, by a process that only watches; "
        f"most of one card: {seen.most['compute']} per mille and {seen.most['memory'] / GIB:.0f} GiB"
    )
    assert seen.events > 2 * PODS, seen.events
    return [
        Figure(
            name="kubernetes.creates.rate",
            value=round(ours / base, 2),
            unit="",
            bar=0.9,
            least=True,
            ratio_to="the same pods by hand",
            ratio=round(ours / base, 2),
            method=method,
        ),
        Figure(
            name="kubernetes.creates.over_allocations", value=len(seen.violations), unit="events", bar=0, method=watched
        ),
    ]


def _by_hand(made: Rig, observer: Observer, pattern: Pattern, prefix: str) -> float:
    names = {f"{prefix}-{number}" for number in range(PODS)}
    pattern.template("bench-bare")
    groups = [pattern.objects(name, "bench-bare") for name in sorted(names)]
    began = time.time()
    crowd.make(made.cluster.kubeconfig, groups)
    rate = _rate(observer, began, names)
    made.cluster.api.call(
        "DELETE", f"{_CORE}/pods", query={"labelSelector": "bench=bare", "gracePeriodSeconds": "0"}, timeout=120
    )
    until(lambda: not made.cluster.api.get(f"{_CORE}/pods", labelSelector="bench=bare", limit="1")["items"], "gone")
    time.sleep(5)  # the claims go after the pods
    return rate


def _through_the_portal(made: Rig, observer: Observer) -> tuple[float, float]:
    """Pods bound a second, and the seconds until all were accepted."""
    began = time.time()
    sent = asyncio.run(crowd.ask(made.apis, ASKED, PODS))
    posted = time.time() - began
    refused = [one for one in sent if one.status != 202]
    assert not refused, refused[:3]
    return _rate(observer, began, {f"w-{one.id}-1" for one in sent}), posted


def _rate(observer: Observer, began: float, names: set[str]) -> float:
    until(lambda: names <= observer.seen().bound.keys(), "all have their place", limit=400, pause=1.0)
    bound = observer.seen().bound
    return len(names) / (max(bound[name] for name in names) - began)


# --- A new controller ----------------------------------------------------------------------------------------------------
def restart() -> list[Figure]:
    options = Options(real=False, fake_nodes=NODES, percentage_of_nodes=ADVISED)
    with rig(options, TESSERA_STORAGE_CLASS=CLASS) as made, Observer(made.cluster.kubeconfig) as observer:
        volumes(made, 10)
        (first,) = asyncio.run(crowd.ask(made.apis, ASKED, 1))
        until(lambda: bool(observer.seen().bound), "the first pod has its place")
        _raise_backstop(made)
        copies = _copies(made, first.id, RESTARTED - 1)
        made.product.stop()
        crowd.make(made.cluster.kubeconfig, copies)
        until(lambda: len(observer.seen().bound) >= RESTARTED, "all have their place", limit=300, pause=1.0)
        for file in made.product.state.glob("*.sqlite3*"):
            file.unlink()
        began = time.time()
        made.start()  # with an empty database: it takes in what the cluster runs
        until(lambda: _known(made, 0) >= RESTARTED, "all are taken in", limit=300, pause=0.5)
        adopted = time.time() - began
        print(f"  adopted in {adopted:.0f} s", flush=True)
        made.product.manage("shell", "-c", _ALL_READY)
        seconds = [_restarted(made) for _ in range(3)]
    method = (
        f"{RESTARTED} pods on {NODES} fake nodes (without claims); the controller is killed (-9), `manage.py up` starts another: from the kill until "
        f"each of the rows (SQLite) was seen anew and all {NODES * 8} cards are mirrored; median of {', '.join(f'{one:.1f}' for one in seconds)} s; "
        f"with an empty database the portal's start until all rows were made again: {adopted:.0f} s; {load()}"
    )
    value = round(median(seconds), 1)
    return [Figure(name="kubernetes.restart.3000_pods", value=value, unit="s", bar=30, method=method)]


_ALL_READY: Final = """
from apps.workloads.models import Workload
Workload.objects.update(phase="ready", reason="ready", evidence={})
"""


def _copies(made: Rig, workload: str, count: int) -> list[list[tuple[str, dict[str, Any]]]]:
    """Pods as the portal makes them, of other workloads, which have answered once. On their nodes from the start: what is measured is
    the controller, and to place 3,000 pods with claims takes the scheduler minutes."""
    pod = made.cluster.api.get(f"{_CORE}/pods", labelSelector=f"tessera.dev/workload={workload}")["items"][0]
    kept = {key: pod["metadata"][key] for key in ("labels", "annotations", "name")}
    pod = {"metadata": kept, "spec": pod["spec"]}
    pod["spec"].pop("resourceClaims", None)
    pod["spec"]["containers"][0]["resources"].pop("claims", None)
    for volume in pod["spec"]["volumes"]:
        if volume.pop("persistentVolumeClaim", None):
            volume["emptyDir"] = {}
    pod["metadata"]["annotations"]["tessera.dev/ready"] = "2026-01-01T00:00:00Z"
    return [[(f"{_CORE}/pods", _copy(pod, workload, number))] for number in range(count)]


def _copy(pod: dict[str, Any], workload: str, number: int) -> dict[str, Any]:
    other = workload[:-6] + f"{number:06x}"
    slug = json.loads(pod["metadata"]["annotations"]["tessera.dev/spec"])["slug"]
    made: dict[str, Any] = json.loads(json.dumps(pod).replace(workload, other).replace(slug, f"copy-{number}"))
    made["spec"]["nodeName"] = f"fake-{number % NODES:04d}"
    notes = made["metadata"]["annotations"]
    notes["tessera.dev/spec-hash"] = encoding.hash_of(encoding.from_json(notes["tessera.dev/spec"]))
    return made


def _known(made: Rig, since: float) -> int:
    """Rows that were seen after `since`."""
    return _count(made, "SELECT count(*) FROM workloads_workload WHERE observed_at > ?", since)


def _count(made: Rig, query: str, since: float) -> int:
    (file,) = made.product.state.glob("*.sqlite3")
    at = datetime.fromtimestamp(since, UTC).replace(tzinfo=None).isoformat(" ")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute(query, (at,)).fetchone()[0])
        except sqlite3.OperationalError:  # busy, or not made yet
            return 0


def _restarted(made: Rig) -> float:
    time.sleep(20)  # rest, and a heartbeat
    controller = made.product.part("controller")
    began = time.time()
    os.kill(controller, 9)
    cards = "SELECT count(*) FROM cluster_gpu, cluster_site WHERE cluster_site.observed_at > ?"
    until(lambda: _known(made, began) >= RESTARTED, "all were seen anew", limit=200, pause=0.5)
    until(lambda: _count(made, cards, began) >= NODES * 8, "the cards are mirrored", limit=100, pause=0.5)
    print(f"  a new controller knew all after {time.time() - began:.1f} s", flush=True)
    return time.time() - began


__all__: Sequence[str] = ("accept", "creates", "restart")
