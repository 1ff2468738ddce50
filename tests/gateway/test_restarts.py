"""A workload that was stopped and started again has another address. A remembered yes must not lead to the old one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
import pytest_asyncio

from apps.cluster.specs import Endpoint
from tests.gateway import dialler
from tests.gateway.conftest import Gateway, Scene
from tests.gateway.upstream import Upstream, serving


class Restarts:
    """Lin's notebook, whose server can be replaced by another at another address, or by none."""

    def __init__(self, scene: Scene) -> None:
        self._uid = scene.mine.uid
        self._running = AsyncExitStack()

    async def to(self, name: str) -> Upstream:
        await self.end()
        upstream = await self._running.enter_async_context(serving(name))
        dialler.endpoints[self._uid] = Endpoint("127.0.0.1", upstream.port, {})
        return upstream

    async def end(self) -> None:
        await self._running.aclose()


@pytest_asyncio.fixture
async def restarts(gateway: Gateway, scene: Scene) -> AsyncIterator[Restarts]:
    made = Restarts(scene)
    yield made
    await made.end()


async def who(browser: aiohttp.ClientSession, url: str, method: str = "GET") -> tuple[int, str]:
    async with browser.request(method, url) as answer:
        return answer.status, (await answer.json()).get("server", "")


async def test_what_is_safe_to_repeat_reaches_the_new_server_at_once(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, restarts: Restarts
) -> None:
    page = gateway.origin(scene.mine) + "/page?query=1"
    await restarts.to("first")
    assert await who(inside, page) == (200, "first")
    second = await restarts.to("second")
    assert await who(inside, page) == (200, "second")
    assert [path for path, _ in second.seen] == ["/page?query=1"]
    assert {name for name in second.seen[0][1] if name.lower().startswith("x-tessera")} == set()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_what_is_not_safe_is_explained_once_and_then_reaches_the_new_server(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, restarts: Restarts, method: str
) -> None:
    page = gateway.origin(scene.mine) + "/page"
    await restarts.to("first")
    assert await who(inside, page) == (200, "first")
    second = await restarts.to("second")
    assert await who(inside, page, method) == (502, "")
    assert second.seen == []
    assert await who(inside, page, method) == (200, "second")


async def test_a_websocket_reaches_the_new_server_at_once(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, restarts: Restarts
) -> None:
    await restarts.to("first")
    assert await who(inside, gateway.origin(scene.mine) + "/page") == (200, "first")
    second = await restarts.to("second")
    async with inside.ws_connect(gateway.origin(scene.mine) + "/ws") as socket:
        await socket.send_str("hello")
        assert (await socket.receive()).data == "hello"
    assert [path for path, _ in second.seen] == ["/ws"]


async def test_a_server_that_is_gone_for_good_is_explained(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, restarts: Restarts
) -> None:
    await restarts.to("first")
    assert await who(inside, gateway.origin(scene.mine) + "/page") == (200, "first")
    await restarts.end()
    assert await who(inside, gateway.origin(scene.mine) + "/page") == (502, "")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await inside.ws_connect(gateway.origin(scene.mine) + "/ws")
    assert refused.value.status == 502
