"""Preparing and unpreparing over the real sockets, with claims read from an API server in the process."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from tests.unit.node.apiserver import (
    CLAIMS,
    NODE,
    ApiServer,
    resource_claim,
    result,
    running_api_server,
    share_config,
)
from tests.unit.node.claimed import CARD, GIB, SECOND_CARD, LibrarySide, make_node
from tests.unit.node.dra.kubelet import Kubelet, kubelet
from tests.unit.node.test_node import slot_held
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.dra.front import Front
from vcuda.node.dra.kubeapi import KubeApi
from vcuda.node.dra.plugin import Claims, Health
from vcuda.node.dra.sockets import Sockets
from vcuda.node.node import Node
from vcuda.node.prepare import Libraries
from vcuda.node.proto import health_v1alpha1_pb2 as health

UID = "aaaaaaaa-0000-0000-0000-000000000001"
DEAD = 2**22 + 1  # no process has such a number


@dataclass
class Site:
    """A node's agent, without its heartbeat, and a kubelet that talks to it."""

    folder: Path
    server: ApiServer
    node: Node
    claims: Claims
    kubelet: Kubelet
    sockets: Sockets
    illness: dict[str, str]

    def cdi(self, uid: str = UID) -> dict[str, Any] | None:
        path = self.folder / "cdi" / f"tessera-{uid}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def claim(self, uid: str = UID, name: str = "claim", **how: object) -> tuple[str, str]:
        self.server.put(CLAIMS, "tenant", resource_claim(uid, name=name, **how))  # type: ignore[arg-type]
        return uid, name


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for the sockets' paths."""
    with tempfile.TemporaryDirectory(prefix="tn-") as path:
        yield Path(path)


@asynccontextmanager
async def agent(folder: Path, server: ApiServer) -> AsyncIterator[Site]:
    """Again on the same folder: after a restart."""
    node, illness = make_node(folder), {CARD: "", SECOND_CARD: ""}
    api = KubeApi(client.Configuration(host=str(server.url).rstrip("/")))
    libraries = Libraries(shim=folder, driver={}, sim_node=folder / "sim.node")
    cdi = CdiFolder(folder / "cdi", node.root, libraries, None)
    cdi.clear()
    claims = Claims(node, api, cdi, NODE)
    front = Front(lambda: None)
    sockets = Sockets(folder / "k", front)
    await sockets.start()
    sockets.clear()
    front.open(claims, Health(node, lambda: illness, NODE))
    try:
        async with kubelet(folder / "k", os.getpid()) as caller:
            yield Site(folder, server, node, claims, caller, sockets, illness)
    finally:
        await sockets.stop()
        await api.close()
        node.close()


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with running_api_server() as running:
        yield running


@pytest.fixture
async def site(folder: Path, server: ApiServer) -> AsyncIterator[Site]:
    async with agent(folder, server) as running:
        yield running


async def test_a_prepared_claim_has_limits_a_cdi_file_and_an_answer_that_names_it(site: Site) -> None:
    answer = (await site.kubelet.prepare(site.claim(parameters=share_config(ceiling=700))))[UID]
    assert answer.error == ""
    (device,) = answer.devices
    assert (list(device.request_names), device.pool_name, device.device_name) == (["gpu"], NODE, "gpu-0")
    assert list(device.cdi_device_ids) == [f"tessera.dev/claim={UID}-gpu-0"]
    assert device.share_id == "share-1"
    (part,) = site.node.claims[UID].claim.parts
    assert (part.memory, part.compute, part.ceiling) == (8 * GIB, 300, 700)
    assert site.sockets.registrar.registered


async def test_the_cdi_file_mounts_the_claim_the_library_and_the_node(site: Site) -> None:
    await site.kubelet.prepare(site.claim())
    spec = site.cdi()
    assert spec is not None
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "tessera.dev/claim")
    (device,) = spec["devices"]
    assert device == {"name": f"{UID}-gpu-0", "containerEdits": {"env": [f"TESSERA_DEVICE_GPU_0={CARD}"]}}
    edits = spec["containerEdits"]
    assert set(edits["env"]) == {
        "LD_LIBRARY_PATH=/usr/local/tessera/lib",
        f"TESSERA_CLAIM={UID}",
        f"CUDA_VISIBLE_DEVICES={CARD}",
        "NVIDIA_VISIBLE_DEVICES=void",
    }
    mounts = {mount["containerPath"]: mount for mount in edits["mounts"]}
    claim, place = site.node.root / UID, "/usr/lib/x86_64-linux-gnu"
    assert {target: mount["hostPath"] for target, mount in mounts.items()} == {
        "/run/tessera/claim": str(claim),
        "/run/tessera/claim/ledger": str(claim / "ledger"),
        "/run/tessera/claim/lock": str(claim / "lock"),
        "/run/tessera/claim/log": str(claim / "log"),
        "/usr/local/tessera/lib": str(claim / "lib"),
        f"{place}/libcuda.so.1": str(claim / "lib/libcuda.so.1"),
        f"{place}/libnvidia-ml.so.1": str(claim / "lib/libnvidia-ml.so.1"),
        f"{place}/driver": str(claim / "lib/driver"),
        "/run/tessera/sim.node": str(site.folder / "sim.node"),
    }
    writable = {target for target, mount in mounts.items() if "rw" in mount["options"]}
    assert writable == {*(f"/run/tessera/claim/{name}" for name in ("ledger", "lock", "log")), "/run/tessera/sim.node"}
    assert all("ro" in mount["options"] for target, mount in mounts.items() if target not in writable)


async def test_any_account_may_write_the_books_of_a_contained_claim_and_nothing_else(site: Site) -> None:
    await site.kubelet.prepare(site.claim())
    claim = site.node.root / UID
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in claim.iterdir()}
    assert {name: modes[name] for name in ("ledger", "lock", "log")} == dict.fromkeys(("ledger", "lock", "log"), 0o666)
    assert modes["config"] == 0o644
    assert stat.S_IMODE(claim.stat().st_mode) == 0o755
    assert os.readlink(claim / "lib/claim") == "/run/tessera/claim"
    assert os.readlink(claim / "lib/driver/tessera-sim.node") == "/run/tessera/sim.node"


async def test_the_same_call_again_changes_nothing(site: Site) -> None:
    first = await site.kubelet.prepare(site.claim())
    ledger = (site.node.root / UID / "ledger").stat().st_ino
    before = (site.folder / "cdi" / f"tessera-{UID}.json").stat().st_mtime_ns
    assert await site.kubelet.prepare((UID, "claim")) == first
    assert (site.node.root / UID / "ledger").stat().st_ino == ledger
    assert (site.folder / "cdi" / f"tessera-{UID}.json").stat().st_mtime_ns == before


async def test_two_cards_in_one_claim_are_two_devices_of_one_folder(site: Site) -> None:
    results = [result(share="s1"), result("gpu-1", share="s2", memory="4Gi", compute="100")]
    answer = (await site.kubelet.prepare(site.claim(results=results)))[UID]
    assert [(device.device_name, device.share_id) for device in answer.devices] == [("gpu-0", "s1"), ("gpu-1", "s2")]
    assert [device["name"] for device in site.cdi()["devices"]] == [f"{UID}-gpu-0", f"{UID}-gpu-1"]  # type: ignore[index]
    assert {part.uuid for part in site.node.claims[UID].claim.parts} == {CARD, SECOND_CARD}


async def test_two_shares_of_one_card_have_one_cdi_device(site: Site) -> None:
    answer = (await site.kubelet.prepare(site.claim(results=[result(share="s1"), result(share="s2")])))[UID]
    assert [device.share_id for device in answer.devices] == ["s1", "s2"]
    assert len({tuple(device.cdi_device_ids) for device in answer.devices}) == 1
    assert [device["name"] for device in site.cdi()["devices"]] == [f"{UID}-gpu-0"]  # type: ignore[index]


async def test_one_bad_claim_is_answered_in_its_own_field(site: Site) -> None:
    good = site.claim()
    replaced = site.claim("not-this-uid", "replaced")[0], "replaced"
    site.server.put(CLAIMS, "tenant", resource_claim("another-uid", name="replaced"))
    odd = site.claim("odd", "odd", parameters={"kind": "Unknown"})
    broken = ("broken", "broken")
    site.server.put(CLAIMS, "tenant", {"metadata": {"name": "broken", "uid": "broken"}, "status": {"allocation": 7}})
    answers = await site.kubelet.prepare(good, replaced, odd, ("missing", "missing"), broken)
    assert answers[UID].error == ""
    assert "another-uid" in answers["not-this-uid"].error
    assert "ShareConfig" in answers["odd"].error
    assert "404" in answers["missing"].error
    assert "cannot be read" in answers["broken"].error
    assert set(site.node.claims) == {UID}
    assert len(list((site.folder / "cdi").iterdir())) == 1


async def test_a_card_is_not_promised_twice_and_an_orphan_makes_room(site: Site) -> None:
    await site.kubelet.prepare(site.claim(results=[result(memory="8Gi", compute="800")]))
    second = site.claim("second", "second")
    answer = (await site.kubelet.prepare(second))["second"]
    assert "left" in answer.error
    assert site.cdi("second") is None
    del site.server.objects[CLAIMS, "tenant", "claim"]  # its pod was removed by force, and kubelet forgot it
    answer = (await site.kubelet.prepare(second))["second"]
    assert answer.error == ""
    assert set(site.node.claims) == {"second"}
    assert site.cdi() is None


async def test_unprepared_leaves_nothing_and_again_is_no_error(site: Site) -> None:
    await site.kubelet.prepare(site.claim())
    assert await site.kubelet.unprepare((UID, "claim"), ("never-seen", "x")) == {UID: "", "never-seen": ""}
    assert await site.kubelet.unprepare((UID, "claim")) == {UID: ""}
    assert list(site.node.root.iterdir()) == []
    assert list((site.folder / "cdi").iterdir()) == []


async def test_a_claim_in_use_stays_until_its_processes_have_ended(site: Site) -> None:
    await site.kubelet.prepare(site.claim())
    LibrarySide(site.node.root / UID)
    with slot_held(site.node.root / UID):
        refused = await site.kubelet.unprepare((UID, "claim"))
        assert "still used" in refused[UID]
        assert site.cdi() is not None
    assert await site.kubelet.unprepare((UID, "claim")) == {UID: ""}


async def test_without_the_api_server_the_answer_says_so_and_nothing_is_made(site: Site) -> None:
    claim = site.claim()
    site.server["get", CLAIMS] << 504
    answer = (await site.kubelet.prepare(claim))[UID]
    assert "504" in answer.error
    assert site.cdi() is None


async def test_a_sweep_takes_what_is_gone_and_leaves_what_it_does_not_know(site: Site) -> None:
    for uid in ("kept", "gone", "moved", "unreadable"):
        await site.kubelet.prepare(site.claim(uid, uid, results=[result(memory="1Gi", compute="100")]))
    del site.server.objects[CLAIMS, "tenant", "gone"]
    site.server.put(CLAIMS, "tenant", resource_claim("moved", name="moved", results=[result() | {"pool": "node-2"}]))
    site.server.put(CLAIMS, "tenant", resource_claim("unreadable", name="unreadable", parameters={"kind": "New"}))
    await site.claims.sweep()
    assert set(site.node.claims) == {"kept", "unreadable"}
    assert site.cdi("gone") is None
    site.server["get", CLAIMS] << 403
    await site.claims.sweep()
    assert set(site.node.claims) == {"kept", "unreadable"}


async def test_health_is_told_at_once_and_when_it_changes(site: Site) -> None:
    told = site.kubelet.health.NodeWatchResources(health.NodeWatchResourcesRequest())
    states = aiter(told)
    first = await anext(states)
    assert {found.device.device_name: found.health for found in first.devices} == {
        "gpu-0": health.HEALTHY,
        "gpu-1": health.HEALTHY,
    }
    site.illness[CARD] = "xid_79"
    second = await anext(states)
    assert {found.device.device_name: (found.health, found.message) for found in second.devices} == {
        "gpu-0": (health.UNHEALTHY, "xid_79"),
        "gpu-1": (health.HEALTHY, ""),
    }


async def test_a_restarted_agent_takes_over_stale_sockets_and_claims(folder: Path, server: ApiServer) -> None:
    async with agent(folder, server) as first:
        await first.kubelet.prepare(first.claim())
    (folder / "k/plugins_registry").mkdir(exist_ok=True)
    stale = [
        folder / f"k/plugins_registry/gpu.tessera.dev-{DEAD}-reg.sock",
        folder / f"k/plugins/gpu.tessera.dev/dra-{DEAD}.sock",
    ]
    others = [
        folder / f"k/plugins_registry/gpu.tessera.dev-{os.getppid()}-reg.sock",
        folder / "k/plugins_registry/other.dev-reg.sock",
    ]
    for path in (*stale, *others):
        path.touch()
    (folder / "cdi/.tessera-half.json.new").write_text("{")
    async with agent(folder, server) as second:
        assert set(second.node.claims) == {UID}
        assert second.node.claims[UID].claim.contained
        assert [path.exists() for path in (*stale, *others)] == [False, False, True, True]
        assert (await second.kubelet.prepare((UID, "claim")))[UID].error == ""
        assert not (folder / "cdi/.tessera-half.json.new").exists()
        assert await second.kubelet.unprepare((UID, "claim")) == {UID: ""}


async def test_a_lost_cdi_file_is_written_again(site: Site) -> None:
    await site.kubelet.prepare(site.claim())
    spec = site.cdi()
    (site.folder / "cdi" / f"tessera-{UID}.json").unlink()  # /var/run is gone after a boot
    assert (await site.kubelet.prepare((UID, "claim")))[UID].error == ""
    assert site.cdi() == spec
