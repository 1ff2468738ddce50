"""The cluster's own life: it comes up whole, again at no cost, bears what tests do to it, and goes without a trace."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import pods
from tests.cluster.cluster import Cluster, Options, names
from tests.cluster.layout import NODE_FOLDERS
from tests.cluster.machine import control_groups
from tests.cluster.parts import PROJECT

SECOND = "going"  # a cluster of these tests alone, beside the one of the session


@pytest.fixture
def going(machine_for_a_node: None) -> Iterator[Cluster]:
    cluster = Cluster(SECOND)
    cluster.stop()
    yield cluster
    Cluster(SECOND).stop()


def test_all_its_parts_run_and_its_node_is_ready(cluster: Cluster) -> None:
    assert all(cluster.alive().values()), cluster.alive()
    nodes = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
    assert nodes == cluster.node_name
    assert cluster.layout.sim_node.exists()


def test_a_second_start_changes_nothing(cluster: Cluster) -> None:
    before = cluster.alive()
    Cluster(cluster.layout.name).start(cluster.options)
    assert cluster.alive() == before


@pytest.mark.parametrize("part", ["kube-scheduler", "kubelet"])
def test_a_part_that_was_killed_is_started_again(cluster: Cluster, part: str) -> None:
    before = cluster.alive()[part]
    cluster.kill(part)
    assert not cluster.up
    cluster.restart(part)
    pods.eventually(lambda: cluster.alive()[part])
    assert cluster.alive()[part] != before


def test_an_api_server_that_hangs_answers_again(cluster: Cluster) -> None:
    cluster.pause_apiserver()
    try:
        with pytest.raises(OSError, match="timed out"):
            cluster.api.get("/api/v1/nodes", timeout=1)
    finally:
        cluster.resume()
    assert cluster.api.get("/api/v1/nodes")["items"]


def test_nothing_stays_of_a_cluster_with_pods(going: Cluster) -> None:
    before = traces()
    going.start(Options())
    going.kubectl("run", "sleeper", "--image=tessera.dev/pause:1", "--image-pull-policy=Never")
    pods.eventually(lambda: pods.status(going, "default", "sleeper").get("phase") == "Running")
    assert traces() != before, "the test must see what a cluster leaves while it runs"
    going.stop()
    assert traces() == before
    assert SECOND not in names()


@pytest.mark.parametrize("seconds", [0.5, 3, 7])
def test_nothing_stays_when_the_harness_was_killed_on_the_way(going: Cluster, seconds: float) -> None:
    before = traces()
    words = [sys.executable, "-m", "tests.cluster", "--name", SECOND, "up"]
    harness = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL)
    time.sleep(seconds)  # not waiting for something: wherever it is by then, it is killed there
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    Cluster(SECOND).stop()
    assert traces() == before


def traces() -> dict[str, set[str]]:
    """Everything on this machine that a cluster could leave behind, without what belongs to other clusters."""
    others = [Cluster(name).layout for name in names() if name != SECOND]
    bridges = {layout.bridge for layout in others}
    processes = {
        (path.parent / "cmdline").read_text().replace("\0", " ")[:200]
        for path in Path("/proc").glob("[0-9]*/environ")
        if f"/{SECOND}\0".encode() in _content(path)
    }
    links = {path.name for path in Path("/sys/class/net").iterdir()} - bridges
    groups = {str(path) for root in control_groups() for path in root.glob("tessera[0-9]*")}
    places = [Path(place) for place in (*NODE_FOLDERS, "/run/netns", "/etc/cdi")]
    return {
        "mounts": {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()},
        "links": {name for name in links if not name.startswith("veth")} | _cables(bridges),
        "processes": processes,
        "control groups": {path for path in groups if Path(path).name not in {layout.cgroup[1:] for layout in others}},
        "folders": {str(path) for place in places if place.is_dir() for path in (place, *place.iterdir())},
        "clusters": set(names()) - {layout.name for layout in others},
        "rules": set(_rules()),
    }


def _cables(others: set[str]) -> set[str]:
    """Ends of pods' cables. Where other clusters run theirs come and go, and are in no bridge for a moment."""
    found = {link.name: link / "master" for link in Path("/sys/class/net").glob("veth*")}
    if others:
        return {name for name, master in found.items() if master.exists() and master.resolve().name not in others}
    return set(found)


def _rules() -> list[str]:
    if shutil.which("iptables-save") is None:
        return []
    done = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if line.startswith(("-A", "-N"))]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
