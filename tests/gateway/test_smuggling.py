"""Requests that are built to mean one thing to nginx and another to what stands behind it."""

import asyncio

import aiohttp
import pytest

from apps.cluster.specs import Endpoint
from apps.gateway.models import Pass
from tests.gateway import dialler
from tests.gateway.conftest import BOUND, Gateway, Scene, ticket_url
from tests.gateway.test_access import cookie_of
from tests.gateway.upstream import Upstream

Servers = dict[str, Upstream]


async def spoken(gateway: Gateway, text: str) -> bytes:
    """What nginx answers to these very bytes, until it closes or falls silent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(text.replace("\n", "\r\n").encode("latin-1"))
    heard = b""
    try:
        while block := await asyncio.wait_for(reader.read(65536), 1.0):
            heard += block
    except TimeoutError:
        pass
    writer.close()
    return heard


async def test_two_lengths_are_one_too_many(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    heard = await spoken(
        gateway,
        f"POST /a HTTP/1.1\nHost: {scene.mine.slug}.localhost\nCookie: {cookie_of(inside)}\n"
        "Content-Length: 5\nTransfer-Encoding: chunked\n\n0\n\nGET /smuggled HTTP/1.1\nHost: x\n\n",
    )
    assert heard.startswith(b"HTTP/1.1 400")
    assert not servers[scene.mine.uid].seen


async def test_an_absolute_address_cannot_contradict_the_host_header(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    for address, host in ((scene.mine.slug, scene.other.slug), (scene.other.slug, scene.mine.slug)):
        heard = await spoken(
            gateway,
            f"GET http://{address}.localhost/a HTTP/1.1\nHost: {host}.localhost\n"
            f"Cookie: {cookie_of(inside)}\nConnection: close\n\n",
        )
        assert heard.startswith(b"HTTP/1.1 400")
    assert not any(server.seen for server in servers.values())


async def test_a_request_without_a_host_header_is_nobodys(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    for line in ("GET /a HTTP/1.0", f"GET http://{scene.mine.slug}.localhost/a HTTP/1.0"):
        heard = await spoken(gateway, f"{line}\nCookie: {cookie_of(inside)}\n\n")
        assert heard.split(b" ")[1] in (b"400", b"404")
    assert not servers[scene.mine.uid].seen


async def test_our_own_headers_from_outside_are_not_believed(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession, servers: Servers
) -> None:
    claims = {
        "X-Tessera-Slug": scene.other.slug,
        "X-Tessera-Target": "127.0.0.1:1",
        "X-Tessera-Probe": "forged:proof",
        "X-Tessera-Address": "//evil.example/",
    }
    for origin in (gateway.origin(scene.mine), gateway.origin(scene.other)):
        async with browser.get(f"{origin}/", headers=claims) as answer:
            assert answer.status == 401
    async with browser.get(f"{gateway.origin(scene.mine)}/_tessera/wait", headers=claims) as answer:
        assert answer.status == 204
    assert not any(server.seen for server in servers.values())


async def test_what_nginx_keeps_for_itself_cannot_be_asked_from_outside(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    for path in ("explain", "down", "authorise", "enter/../authorise", "%65xplain", "anything"):
        heard = await spoken(
            gateway,
            f"GET /_tessera/{path} HTTP/1.1\nHost: {scene.mine.slug}.localhost\n"
            f"Cookie: {cookie_of(inside)}\nConnection: close\n\n",
        )
        assert heard.startswith(b"HTTP/1.1 404")
        assert b"X-Tessera" not in heard


async def test_a_body_hidden_behind_a_websocket_request_reaches_nobody(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    """The workload refuses the upgrade; what follows must not be read by it as a request of its own."""
    hidden = "GET /hidden HTTP/1.1\nHost: x\n\n"
    heard = await spoken(
        gateway,
        f"GET /plain HTTP/1.1\nHost: {scene.mine.slug}.localhost\nCookie: {cookie_of(inside)}\n"
        f"Connection: Upgrade\nUpgrade: websocket\nContent-Length: {len(hidden) + 3}\n\n{hidden}",
    )
    assert heard.count(b"HTTP/1.1 ") <= 2
    assert [path for path, _headers in servers[scene.mine.uid].seen] == ["/plain"]


async def test_other_host_names_are_nobodys(gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession) -> None:
    for host in ("localhost", "127.0.0.1", f"a.{scene.mine.slug}.localhost", "evil.example", "-.localhost"):
        heard = await spoken(gateway, f"GET / HTTP/1.1\nHost: {host}\nConnection: close\n\n")
        assert heard.startswith(b"HTTP/1.1 404"), host
        assert b"No notebook has this address." in heard


async def test_a_ticket_cannot_lead_out(gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession) -> None:
    for page in (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/a\r\nSet-Cookie: x=y",
        "lab",
        "/_tessera/enter",
    ):
        async with browser.get(
            await ticket_url(scene.tom, scene.other, scene.tom_session, page), allow_redirects=False
        ) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == "/lab"
        await _forget(scene)


async def _forget(scene: Scene) -> None:
    await Pass.objects.filter(user=scene.tom).adelete()


async def test_an_answer_that_is_all_head_is_cut_off(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    """A workload that answers an upgrade with an endless head costs nginx no more than a page of memory."""

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nX: ")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    dialler.endpoints[scene.mine.uid] = Endpoint("127.0.0.1", port)
    async with server:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await asyncio.wait_for(inside.ws_connect(f"{gateway.origin(scene.mine)}/ws"), BOUND)
    assert refusal.value.status == 502


async def test_a_page_of_another_notebook_can_neither_change_nor_listen(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    """A browser sends our cookie along, for it counts the other notebook as the same site."""
    mine = gateway.origin(scene.mine)
    for origin in (gateway.origin(scene.other), "http://evil.example", "null", mine.replace("http", "https")):
        async with inside.post(f"{mine}/api/kernels", headers={"Origin": origin}) as answer:
            assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await inside.ws_connect(f"{mine}/ws", origin=origin)
        assert refusal.value.status == 403
    assert not servers[scene.mine.uid].seen
    async with inside.post(f"{mine}/api/kernels", headers={"Origin": mine}) as answer:
        assert answer.status == 200
    async with inside.ws_connect(f"{mine}/ws", origin=mine) as socket:
        await socket.send_str("mine")
        assert await socket.receive_str(timeout=BOUND) == "mine"
