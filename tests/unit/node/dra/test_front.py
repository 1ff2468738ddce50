"""A rolling update as kubelet sees it: two agents at a time, and no call that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes.aio import client

from tests.unit.node.apiserver import CLAIMS, NODE, ApiServer, Slow, resource_claim
from tests.unit.node.claimed import CARD, make_node
from tests.unit.node.dra.kubelet import kubelet
from tests.unit.node.dra.test_plugin import UID, folder, server  # noqa: F401
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.dra.front import Front
from vcuda.node.dra.kubeapi import KubeApi
from vcuda.node.dra.plugin import Claims, Health
from vcuda.node.dra.sockets import Sockets, plugin_socket
from vcuda.node.node import Node
from vcuda.node.proto import health_v1alpha1_pb2 as health

OLD, NEW = 1, 2  # processes


class Update:
    """Who holds the node's state is `holder`; None between the two."""

    def __init__(self, place: Path, url: str) -> None:
        self.place = place
        self.holder: int | None = OLD
        self.fronts = {process: Front(self.other) for process in (OLD, NEW)}
        self.sockets = {process: Sockets(place / "k", front, process) for process, front in self.fronts.items()}
        self._api = KubeApi(client.Configuration(host=url))
        self._nodes: list[Node] = []

    def other(self) -> Path | None:
        return None if self.holder is None else plugin_socket(self.place / "k", self.holder)

    def take_over(self, process: int) -> Node:
        self.holder = process
        node = make_node(self.place)
        cdi = CdiFolder(self.place / "cdi", node.root, None, None)
        cdi.clear()
        self.fronts[process].open(Claims(node, self._api, cdi, NODE), Health(node, lambda: {CARD: ""}, NODE))
        self._nodes.append(node)
        return node

    async def stop(self, process: int) -> None:
        await self.sockets[process].stop()
        if self.holder == process:
            self.holder = None
            self._nodes[-1].close()

    async def close(self) -> None:
        for process in self.sockets:
            await self.stop(process)
        await self._api.close()


@pytest.fixture
async def update(folder: Path, server: ApiServer) -> AsyncIterator[Update]:  # noqa: F811
    server.put(CLAIMS, "tenant", resource_claim(UID))
    running = Update(folder, str(server.url).rstrip("/"))
    for sockets in running.sockets.values():
        await sockets.start()
    yield running
    await running.close()


async def test_the_newer_agent_passes_calls_on_until_the_state_is_its_own(update: Update) -> None:
    old = update.take_over(OLD)
    async with kubelet(update.place / "k", NEW) as caller:
        assert (await caller.prepare((UID, "claim")))[UID].error == ""
        assert set(old.claims) == {UID}
        await update.stop(OLD)
        new = update.take_over(NEW)
        assert set(new.claims) == {UID}
        assert await caller.unprepare((UID, "claim")) == {UID: ""}
        assert set(new.claims) == set()


async def test_a_call_between_two_agents_waits_and_is_answered(update: Update) -> None:
    update.take_over(OLD)
    async with kubelet(update.place / "k", NEW) as caller:
        await update.stop(OLD)
        asked = asyncio.create_task(caller.prepare((UID, "claim")))
        told = asyncio.ensure_future(anext(aiter(caller.health.NodeWatchResources(health.NodeWatchResourcesRequest()))))
        await asyncio.wait({asked, told}, timeout=0.3)
        assert not asked.done()
        assert not told.done()
        new = update.take_over(NEW)
        assert (await asked)[UID].error == ""
        assert set(new.claims) == {UID}
        assert [device.health for device in (await told).devices] == [health.HEALTHY]


async def test_an_agent_that_ends_answers_the_calls_that_run(update: Update, server: ApiServer) -> None:  # noqa: F811
    """kubelet would tell the owner of the pod that it failed, and try again after more than a minute."""
    update.take_over(OLD)
    server.slow = Slow()
    async with kubelet(update.place / "k", OLD) as caller:
        watching = aiter(caller.health.NodeWatchResources(health.NodeWatchResourcesRequest()))
        assert len((await anext(watching)).devices) == 1
        asked = asyncio.create_task(caller.prepare((UID, "claim")))
        await server.slow.asked.wait()
        stopped = asyncio.create_task(update.stop(OLD))
        assert await anext(watching, None) is None, "who watches the health of devices goes to the next agent"
        _, waits = await asyncio.wait({asked, stopped}, timeout=1)
        assert waits == {asked, stopped}
        server.slow.over.set()
        assert (await asked)[UID].error == ""
        await stopped
