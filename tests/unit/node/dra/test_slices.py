"""The node's ResourceSlice: what it says, and that it comes back whatever happens to it or to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from tests.unit.node.apiserver import NODE, NODE_UID, NODES, SLICES, ApiServer, running_api_server
from tests.unit.node.claimed import CARD, SECOND_CARD, facts
from vcuda.node.dra import kubeapi
from vcuda.node.dra.devices import build_devices, build_slice, essence
from vcuda.node.dra.kubeapi import KubeApi
from vcuda.node.dra.slices import Publisher

NAME = f"{NODE}-gpu.tessera.dev"
CARDS = [facts(), facts(SECOND_CARD, 1)]
BOUND = 30  # s; only says when a test gives up


def attributes(**told: Any) -> dict[str, Any]:
    (device,) = build_devices([replace(facts(), attributes=told)], {}, simulated=False, sys=Path("/nowhere"))
    found: dict[str, Any] = device["attributes"]
    return found


def test_a_device_says_what_the_card_is_and_how_it_is_shared() -> None:
    card = replace(
        facts(),
        attributes={"architecture": "Hopper", "driver_version": "535.54.03", "cuda_version": "12.9", "numa_node": 1},
    )
    (device,) = build_devices([card], {}, simulated=True)
    assert device["attributes"] == {
        "uuid": {"string": CARD},
        "model": {"string": "NVIDIA Test"},
        "architecture": {"string": "Hopper"},
        "driverVersion": {"version": "535.54.3"},
        "cudaVersion": {"version": "12.9.0"},
        "index": {"int": 0},
        "simulated": {"bool": True},
        "numaNode": {"int": 1},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }
    memory = f"{card.allocatable // 1024**2}Mi"
    assert device["capacity"] == {
        "memory": {"value": memory, "requestPolicy": {"default": memory, "validRange": {"min": "64Mi", "step": "1Mi"}}},
        "compute": {"value": "1000", "requestPolicy": {"default": "1000", "validRange": {"min": "1", "step": "1"}}},
    }
    assert device["allowMultipleAllocations"] is True
    assert "taints" not in device


def test_what_a_driver_does_not_tell_is_left_out() -> None:
    assert attributes(numa_node=2**32 - 1, driver_version="unknown", pci="00000000:01:00.0").keys() == {
        "uuid", "model", "index", "simulated",
    }  # fmt: skip


def test_the_root_of_a_card_is_found_in_sys(tmp_path: Path) -> None:
    card = tmp_path / "devices/pci0000:40/0000:40:01.1/0000:41:00.0"
    card.mkdir(parents=True)
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus/0000:41:00.0").symlink_to(card)
    told = replace(facts(), attributes={"pci": "00000000:41:00.0"})
    (device,) = build_devices([told], {}, simulated=False, sys=tmp_path / "bus")
    assert device["attributes"]["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:40"}


@pytest.mark.parametrize(
    ("reason", "value", "effect"),
    [
        ("gpu_lost", "gpu_lost", "NoExecute"),
        ("xid_79", "xid_79", "NoSchedule"),
        ("odd: reason!", "odd__reason", "NoSchedule"),
    ],
)
def test_an_unhealthy_card_is_tainted(reason: str, value: str, effect: str) -> None:
    (device,) = build_devices([facts()], {CARD: reason}, simulated=True)
    assert device["taints"] == [{"key": "gpu.tessera.dev/unhealthy", "value": value, "effect": effect}]


def test_the_same_amounts_written_otherwise_are_the_same_slice() -> None:
    devices = build_devices(CARDS, {CARD: "xid_79"}, simulated=True)
    ours = build_slice(NODE, {}, devices, 1)["spec"]
    theirs = build_slice(NODE, {}, build_devices(CARDS, {CARD: "xid_79"}, simulated=True), 7)["spec"]
    theirs["devices"][0]["taints"][0]["timeAdded"] = "2026-05-04T03:02:01Z"
    theirs["devices"][0]["capacity"]["memory"]["value"] = str(CARDS[0].allocatable)
    assert essence(ours) == essence(theirs)
    theirs["devices"][1]["capacity"]["compute"]["value"] = "999"
    assert essence(ours) != essence(theirs)


async def test_nonsense_in_its_place_is_put_right(server: ApiServer, illness: dict[str, str]) -> None:
    nonsense = build_slice(NODE, {"uid": NODE_UID}, [{"name": "gpu-0", "capacity": {"memory": {"value": "lots"}}}], 3)
    server.put(SLICES, None, nonsense)
    async with publishing(server, illness):
        await until(lambda: is_whole(server))


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with running_api_server() as running:
        yield running


@pytest.fixture
def illness() -> dict[str, str]:
    return {}


@asynccontextmanager
async def publishing(server: ApiServer, illness: dict[str, str]) -> AsyncIterator[Publisher]:
    api = KubeApi(client.Configuration(host=str(server.url).rstrip("/")))
    publisher = Publisher(api, NODE, lambda: build_devices(CARDS, illness, simulated=True))
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await api.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not holds():  # noqa: ASYNC110 - what holds is on the other side of a connection
            await asyncio.sleep(0.01)


def is_whole(server: ApiServer, *, taints: int = 0) -> bool:
    found = server.get_slice()
    devices = found["spec"]["devices"] if found else []
    return len(devices) == 2 and sum(len(device.get("taints", ())) for device in devices) == taints


async def test_it_is_published_and_belongs_to_the_node(server: ApiServer, illness: dict[str, str]) -> None:
    async with publishing(server, illness) as publisher:
        await until(lambda: publisher.published)
        found = server.get_slice()
        assert found is not None
        assert found["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE_UID, "controller": True}
        ]
        assert found["spec"]["nodeName"] == NODE
        assert found["spec"]["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        assert server.asked("update", SLICES)[0].params["force"] == "true"


async def test_nothing_is_written_while_nothing_changes(server: ApiServer, illness: dict[str, str]) -> None:
    async with publishing(server, illness):
        await until(lambda: is_whole(server))
        await asyncio.sleep(2.5)  # two looks at the cards' health
        assert len(server.asked("update", SLICES)) == 1
    async with publishing(server, illness) as again:  # nor by an agent that comes back to it
        await until(lambda: again.published)
        assert len(server.asked("update", SLICES)) == 1


async def test_it_comes_back_when_kubelet_deletes_it(server: ApiServer, illness: dict[str, str]) -> None:
    async with publishing(server, illness):
        for _ in range(3):
            await until(lambda: is_whole(server))
            await server.remove(SLICES, NAME)
            assert server.get_slice() is None
        await until(lambda: is_whole(server))


async def test_it_is_put_right_when_somebody_changes_it(server: ApiServer, illness: dict[str, str]) -> None:
    async with publishing(server, illness):
        await until(lambda: is_whole(server))
        await server.change(SLICES, NAME, {"spec": {"devices": []}})
        await until(lambda: is_whole(server))
        found = server.get_slice()
        assert found is not None
        assert found["spec"]["pool"]["generation"] == 2


async def test_another_slice_of_ours_on_this_node_is_removed(server: ApiServer, illness: dict[str, str]) -> None:
    stray = build_slice(NODE, {"uid": "x"}, [], 41)
    stray["metadata"]["name"] = "left-behind"
    server.put(SLICES, None, stray)
    async with publishing(server, illness):
        await until(lambda: is_whole(server))
        assert server.get_slice("left-behind") is None


async def test_a_taint_comes_and_goes_with_the_cards_health(server: ApiServer, illness: dict[str, str]) -> None:
    async with publishing(server, illness):
        await until(lambda: is_whole(server))
        illness[CARD] = "xid_79"
        await until(lambda: is_whole(server, taints=1))
        illness[CARD] = ""
        await until(lambda: is_whole(server))


async def test_without_its_node_it_waits(server: ApiServer, illness: dict[str, str]) -> None:
    del server.objects[NODES, None, NODE]
    async with publishing(server, illness):
        await until(lambda: len(server.asked("fetch", NODES)) > 1)
        assert server.get_slice() is None
        server.put(NODES, None, {"metadata": {"name": NODE, "uid": NODE_UID}})
        await until(lambda: is_whole(server))


@pytest.mark.parametrize("fault", [403, 410, 504])
@pytest.mark.parametrize("action", ["list", "watch"])
async def test_faults_pass_and_are_not_hammered(
    server: ApiServer, illness: dict[str, str], action: str, fault: int
) -> None:
    scripted = server[action, SLICES] << fault
    async with publishing(server, illness):
        await asyncio.sleep(2)
        assert 2 <= len(server.asked(action, SLICES)) <= 8, "each failure waits twice as long as the one before"
        scripted._disabled.set()  # type: ignore[union-attr]
        if action == "watch":
            await server.remove(SLICES, NAME)
        await until(lambda: is_whole(server))


async def test_a_write_that_timed_out_but_was_done_is_not_done_again(
    server: ApiServer, illness: dict[str, str]
) -> None:
    server["update", SLICES] << 504
    async with publishing(server, illness) as publisher:
        await until(lambda: publisher.published)
        assert is_whole(server)
        assert len(server.asked("update", SLICES)) == 1


async def test_an_error_inside_a_watch_leads_to_a_new_listing(server: ApiServer, illness: dict[str, str]) -> None:
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
    scripted = server["watch", SLICES] << (expired,)
    async with publishing(server, illness):
        await until(lambda: len(server.asked("list", SLICES)) > 1)
        scripted._disabled.set()  # type: ignore[union-attr]
        await server.remove(SLICES, NAME)
        await until(lambda: is_whole(server))


@contextmanager
def short_watches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubeapi, "_WATCH", (1, 1))
        patch.setattr(kubeapi, "_GRACE", 0)
        yield


async def test_a_connection_that_is_half_open_is_given_up(server: ApiServer, illness: dict[str, str]) -> None:
    """The server accepts the watch and never says another word, not even that its time is over."""
    server["watch", SLICES] << (b"", lambda: asyncio.sleep(3600))
    with short_watches():
        async with publishing(server, illness):
            await until(lambda: is_whole(server))
            server.objects[SLICES, None, NAME].delete()
            await until(lambda: is_whole(server))
            await until(lambda: len(server.asked("watch", SLICES)) > 1)
