"""What passes through the gateway, and in which shape."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.conftest import BOUND, Gateway, Scene, wait_until
from tests.gateway.upstream import BLOCK, Upstream

SIZE = 200 * 1024**2  # bytes
FLAT = 48 * 1024  # KiB by which nginx may grow while 200 MiB pass
Servers = dict[str, Upstream]


def memory(gateway: Gateway) -> int:
    """Resident KiB of nginx: master and workers are one process group."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            group = int((status.parent / "stat").read_text().rsplit(")", 1)[1].split()[2])
            if group == gateway.process.pid:
                total += int(status.read_text().split("VmRSS:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total


def kept_on_disk(gateway: Gateway) -> int:
    return sum(file.stat().st_size for file in (gateway.folder / "temp").rglob("*") if file.is_file())


async def test_a_request_reaches_its_workload_with_the_servers_secret_and_without_ours(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    claims = {
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-User": "admin",
        "Forwarded": "for=6.6.6.6",
        "X-Real-IP": "6.6.6.6",
        "X-Tessera-Target": "127.0.0.1:1",
        "X-Tessera-Slug": "x",
        "Authorization": "token mine",
        "X-Kept": "yes",
        "Cookie": "_xsrf=2|abc; other=1",
    }
    async with inside.get(f"{gateway.origin(scene.mine)}/a/b", headers=claims) as answer:
        assert answer.status == 200
        told = await answer.json()
    headers = {name.lower(): value for name, value in told["headers"].items()}
    assert told["server"] == "mine"
    assert headers["authorization"] == "token secret-of-mine"
    assert headers["cookie"] == "_xsrf=2|abc; other=1"
    assert headers["x-forwarded-for"] == headers["x-real-ip"] == "127.0.0.1"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-forwarded-host"] == headers["host"] == f"{scene.mine.slug}.localhost:{gateway.port}"
    assert headers["x-kept"] == "yes"
    assert not {"forwarded", "x-forwarded-user", "x-tessera-target", "x-tessera-slug"} & set(headers)


async def test_the_path_arrives_as_the_browser_wrote_it(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    from yarl import URL

    path = "/files/a%2Fb//c%20d?x=%2e%2e&x=1"
    async with inside.get(URL(gateway.origin(scene.mine) + path, encoded=True)) as answer:
        assert (await answer.json())["path"] == path


async def test_websockets_echo_small_and_large_messages(
    gateway: Gateway, scene: Scene, servers: Servers, inside: aiohttp.ClientSession
) -> None:
    large = bytes(range(256)) * 4096 * 5  # 5 MiB
    claims = {
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-User": "admin",
        "Forwarded": "for=6.6.6.6",
        "X-Tessera-Target": "127.0.0.1:1",
        "Authorization": "token mine",
        "X-Kept": "yes",
        "Cookie": "_xsrf=1",
    }
    url = f"{gateway.origin(scene.mine)}/ws?a=b"
    async with inside.ws_connect(url, max_msg_size=0, headers=claims) as socket:
        await socket.send_str("hello")
        assert await socket.receive_str(timeout=BOUND) == "hello"
        await socket.send_bytes(large)
        assert await socket.receive_bytes(timeout=BOUND) == large
    path, seen = servers[scene.mine.uid].seen[-1]
    headers = {name.lower(): value for name, value in seen.items()}
    assert path == "/ws?a=b"
    assert headers["authorization"] == "token secret-of-mine"
    assert headers["cookie"] == "_xsrf=1"
    assert headers["x-forwarded-for"] == headers["x-real-ip"] == "127.0.0.1"
    assert headers["x-forwarded-host"] == headers["host"]
    assert headers["x-kept"] == "yes"
    assert not {"forwarded", "x-forwarded-user", "x-tessera-target"} & set(headers)


async def test_a_websocket_that_the_workload_closes_is_closed_in_the_browser(
    gateway: Gateway, scene: Scene, servers: Servers, inside: aiohttp.ClientSession
) -> None:
    upstream = servers[scene.mine.uid]
    async with inside.ws_connect(f"{gateway.origin(scene.mine)}/ws") as socket:
        await socket.close()
    async with asyncio.timeout(BOUND):
        await upstream.closed.wait()
    assert upstream.open_sockets == 0


async def test_a_refused_websocket_keeps_the_status_that_the_workload_gave(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await inside.ws_connect(f"{gateway.origin(scene.mine)}/refuse/403")
    assert refusal.value.status == 403


async def test_an_upload_streams_and_is_kept_nowhere(
    gateway: Gateway, scene: Scene, servers: Servers, inside: aiohttp.ClientSession
) -> None:
    upstream, before = servers[scene.mine.uid], memory(gateway)
    grown, half = 0, asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        nonlocal grown
        for number in range(SIZE // BLOCK):
            if number == SIZE // BLOCK // 2:
                # The second half is sent only once the workload has received much of the first.
                await wait_until(lambda: upstream.received > SIZE // 4)
                half.set()
            if number % 100 == 0:
                grown = max(grown, memory(gateway) - before)
                assert kept_on_disk(gateway) == 0
            yield bytes(BLOCK)

    async with inside.post(f"{gateway.origin(scene.mine)}/swallow", data=body()) as answer:
        assert (await answer.json())["bytes"] == SIZE
    assert half.is_set()
    assert grown < FLAT


async def test_a_download_streams_and_is_kept_nowhere(
    gateway: Gateway, scene: Scene, servers: Servers, inside: aiohttp.ClientSession
) -> None:
    upstream, before = servers[scene.mine.uid], memory(gateway)
    url = f"{gateway.origin(scene.mine)}/pour?bytes={SIZE}"
    async with inside.get(url) as answer:
        received = len(await asyncio.wait_for(answer.content.readexactly(BLOCK), BOUND))
        upstream.hold.set()  # the rest is not even made before the first block has arrived
        grown = 0
        async for block in answer.content.iter_chunked(BLOCK):
            if received // (BLOCK * 100) != (received + len(block)) // (BLOCK * 100):
                grown = max(grown, memory(gateway) - before)
                assert kept_on_disk(gateway) == 0
            received += len(block)
    assert received == SIZE
    assert grown < FLAT


async def test_user_code_cannot_steer_nginx(gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession) -> None:
    async with inside.get(f"{gateway.origin(scene.mine)}/steer") as answer:
        assert await answer.text() == "steered nowhere"
        assert not [name for name in answer.headers if name.lower().startswith(("x-tessera", "x-accel"))]


async def test_error_statuses_of_user_code_pass_unchanged(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    for status in (401, 403, 404, 500, 502, 503):
        async with inside.get(f"{gateway.origin(scene.mine)}/refuse/{status}") as answer:
            assert answer.status == status
            assert await answer.text() == "said by user code"


async def test_connections_to_the_workload_are_kept(
    gateway: Gateway, scene: Scene, servers: Servers, inside: aiohttp.ClientSession
) -> None:
    for _ in range(30):
        async with inside.get(f"{gateway.origin(scene.mine)}/api") as answer:
            assert answer.status == 200
    upstream = servers[scene.mine.uid]
    assert len(upstream.seen) == 30
    assert len(upstream.connections) <= 8  # workers keep their own
