"""The visit that comes before "ready"."""

import asyncio
import os
import signal

import aiohttp
import pytest
from asgiref.sync import sync_to_async

from apps.core.errors import Unavailable
from apps.gateway import probe
from apps.workloads.models import Workload
from apps.workloads.reach import through_gateway
from tests.gateway import dialler
from tests.gateway.conftest import BOUND, Gateway, Scene
from tests.gateway.test_access import status
from tests.gateway.upstream import Upstream

Servers = dict[str, Upstream]


async def phase(workload: Workload, value: str) -> None:
    await sync_to_async(Workload.objects.filter(id=workload.id).update)(phase=value)


async def test_a_starting_workload_is_visited_by_http_and_by_websocket(
    gateway: Gateway, scene: Scene, servers: Servers
) -> None:
    await phase(scene.mine, "starting")
    await asyncio.wait_for(through_gateway(scene.mine.slug), BOUND)
    seen = servers[scene.mine.uid].seen
    # Both at once, in any order.
    assert sorted(path for path, _headers in seen) == ["/api/events/subscribe", "/api/status"]
    for _path, headers in seen:
        assert headers["Authorization"] == "token secret-of-mine"
        assert not [name for name in headers if name.lower().startswith("x-tessera")]


async def test_a_stopped_workload_is_not_visited(gateway: Gateway, scene: Scene, servers: Servers) -> None:
    await phase(scene.mine, "stopped")
    with pytest.raises(Unavailable, match="503"):
        await probe.visit(scene.mine.slug)
    assert not servers[scene.mine.uid].seen


async def test_a_proof_is_good_for_one_host_and_is_not_remembered(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    proof = await sync_to_async(probe.proof)(scene.mine.slug)
    mine, other = f"{gateway.origin(scene.mine)}/api/status", f"{gateway.origin(scene.other)}/api/status"
    assert await status(browser, mine, **{"X-Tessera-Probe": proof}) == 200
    assert await status(browser, other, **{"X-Tessera-Probe": proof}) == 401
    assert await status(browser, mine) == 401


async def test_a_server_that_is_not_there_is_named(gateway: Gateway, scene: Scene) -> None:
    dialler.endpoints.clear()
    with pytest.raises(Unavailable, match="502"):
        await probe.visit(scene.mine.slug)


async def test_a_gateway_that_is_down_is_unavailable_at_once(gateway: Gateway, scene: Scene) -> None:
    os.killpg(gateway.process.pid, signal.SIGKILL)
    gateway.process.wait(BOUND)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(probe.visit(scene.mine.slug), BOUND)
