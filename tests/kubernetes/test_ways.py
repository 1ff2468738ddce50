"""Ways to a run: the request that waits for it, tunnels through the API server, terminals."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from apps.cluster.drivers.kubernetes.api import Api, ApiError, Connection
from apps.cluster.drivers.kubernetes.readiness import Prober
from apps.cluster.drivers.kubernetes.terminals import open_terminal
from apps.cluster.drivers.kubernetes.tunnels import PROTOCOL, Tunnels
from apps.cluster.specs import Endpoint

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "1"}}
Handler = Callable[[web.WebSocketResponse], Awaitable[None]]


# --- The probe -----------------------------------------------------------------------------------------------------------
class Program:
    """Listens on a port that is its own from the beginning, and answers as the test says."""

    def __init__(self, *answers: bytes | None) -> None:
        """None: the connection is closed without a word. The last one is repeated."""
        self.answers, self.asked, self.may_answer = list(answers), list[bytes](), asyncio.Event()
        self.may_answer.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await self.may_answer.wait()
        if answer is not None:
            writer.write(answer)
        writer.close()

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[Endpoint]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        host, number = server.sockets[0].getsockname()
        try:
            yield Endpoint(host, number, {"Authorization": "Bearer word"})
        finally:
            server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BROKEN = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


class Pauses:
    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "answer", [OK, b"HTTP/1.0 404 Not Found\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"]
)
async def test_any_answer_below_500_counts(answer: bytes) -> None:
    program, pauses = Program(answer), Pauses()
    async with program.listening() as endpoint:
        await Prober(pauses).answered(endpoint, "/api/status")
    assert pauses.taken == []
    assert program.asked[0].startswith(b"GET /api/status HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer word\r\n" in program.asked[0]


async def test_one_request_waits_for_a_program_that_is_slow() -> None:
    program, pauses = Program(OK), Pauses()
    program.may_answer.clear()
    async with program.listening() as endpoint:
        asking = asyncio.create_task(Prober(pauses).answered(endpoint, "/"))
        while not program.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not asking.done()
        program.may_answer.set()
        await asking
    assert (len(program.asked), pauses.taken) == (1, [])


@pytest.mark.parametrize("answer", [BROKEN, None, b"SSH-2.0-nonsense\r\n", b"\r\n", b"HTTP/1.1 zzz\r\n"])
async def test_what_is_no_answer_is_asked_again_a_little_later(answer: bytes | None) -> None:
    program, pauses = Program(answer, answer, OK), Pauses()
    async with program.listening() as endpoint:
        await Prober(pauses).answered(endpoint, "/")
    assert pauses.taken == [0.02, 0.02]


async def test_a_refused_connection_is_tried_until_somebody_listens() -> None:
    async with Program(OK).listening() as endpoint:
        pass
    pauses = Pauses()
    asking = asyncio.create_task(Prober(pauses).answered(endpoint, "/"))
    while sum(pauses.taken) < 30:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with Program(OK).listening(endpoint.port):
        await asking
    waited = list(accumulate(pauses.taken, initial=0.0))
    late = [pause for pause, before in zip(pauses.taken, waited, strict=False) if pause > max(0.02, before / 32)]
    assert not late, "a server that comes up is found within a thirtieth of the time that it took"
    assert max(pauses.taken) == 0.5
    assert len([one for one in waited if one < 10]) < 130, "and nobody is asked without end"


# --- Behind an API server ------------------------------------------------------------------------------------------------
@asynccontextmanager
async def api_server(handler: Handler, *protocols: str) -> AsyncIterator[tuple[Api, list[Any]]]:
    """An API with one websocket for everything; and what was asked for."""
    asked: list[Any] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        asked.append(request.rel_url)
        if not protocols:
            raise web.HTTPForbidden(text=json.dumps({"reason": "Forbidden", "message": "no"}))
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        await handler(socket)
        return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with Api(Connection(host=f"http://127.0.0.1:{runner.addresses[0][1]}")) as api:
            yield api, asked
    finally:
        await runner.cleanup()


async def greeted(socket: web.WebSocketResponse, port: int) -> None:
    for channel in (0, 1):
        await socket.send_bytes(bytes([channel]) + struct.pack("<H", port))


async def echo(socket: web.WebSocketResponse) -> None:
    await greeted(socket, 8888)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)


async def test_bytes_go_through_a_tunnel_both_ways_unharmed() -> None:
    async with api_server(echo, PROTOCOL) as (api, asked):
        tunnels = Tunnels(api)
        host, port = await tunnels.to(POD, 8888)
        assert await tunnels.to(POD, 8888) == (host, port)
        content = bytes(range(256)) * 4096
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(content)
        assert await reader.readexactly(len(content)) == content
        writer.close()
        assert str(asked[0]) == "/api/v1/namespaces/n/pods/p/portforward?ports=8888"
        await tunnels.close()


async def test_many_connections_share_a_listener_and_not_their_bytes() -> None:
    async with api_server(echo, PROTOCOL) as (api, asked):
        tunnels = Tunnels(api)
        host, port = await tunnels.to(POD, 8888)

        async def ask(number: int) -> None:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
            writer.close()

        await asyncio.gather(*(ask(number) for number in range(30)))
        assert len(asked) == 30
        await tunnels.close()


async def refuse(socket: web.WebSocketResponse) -> None:
    await greeted(socket, 8888)
    await socket.send_bytes(b"\x01connection refused")


async def hang_up(socket: web.WebSocketResponse) -> None:
    await socket.close()


@pytest.mark.parametrize("handler", [refuse, hang_up])
async def test_where_nobody_listens_in_the_pod_the_connection_ends(handler: Handler) -> None:
    async with api_server(handler, PROTOCOL) as (api, _):
        tunnels = Tunnels(api)
        reader, writer = await asyncio.open_connection(*await tunnels.to(POD, 8888))
        assert await reader.read() == b""
        writer.close()
        await tunnels.close()


async def test_where_the_api_server_refuses_the_connection_ends() -> None:
    async with api_server(echo) as (api, _):
        tunnels = Tunnels(api)
        reader, writer = await asyncio.open_connection(*await tunnels.to(POD, 8888))
        assert await reader.read() == b""
        writer.close()
        await tunnels.close()


async def test_a_pod_that_is_gone_refuses_at_once() -> None:
    async with api_server(echo, PROTOCOL) as (api, _):
        tunnels = Tunnels(api)
        address = await tunnels.to(POD, 8888)
        tunnels.drop("1")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        assert await tunnels.to(POD, 8888) != address
        await tunnels.close()


# --- Terminals -----------------------------------------------------------------------------------------------------------
def program(status: dict[str, Any] | None) -> Handler:
    """Says what it hears, and ends with `status` when its input does."""

    async def serve(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.data[:1] == b"\x00":
                await socket.send_bytes(b"\x01" + message.data[1:])
                await socket.send_bytes(b"\x02heard")
            elif message.data[:1] == b"\x04":
                await socket.send_bytes(b"\x01" + message.data[1:])
            elif message.data == b"\xff\x00":
                break
        if status is not None:
            await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()

    return serve


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"status": "Success"}, 0),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}}, 137),
        ({"status": "Failure", "message": "container not found"}, None),
        (None, None),
    ],
)
async def test_a_terminal_hears_says_and_tells_the_exit_code(status: dict[str, Any] | None, code: int | None) -> None:
    async with api_server(program(status), "v5.channel.k8s.io") as (api, asked):
        terminal = await open_terminal(api, POD, ["sh", "-c", "a b"], tty=False)
        await terminal.write(b"hello")
        await terminal.resize(80, 24)
        await terminal.end_input()
        assert [chunk async for chunk in terminal.output()] == [b"hello", b"heard", b'{"Width": 80, "Height": 24}']
        assert terminal.exit_code == code
        await terminal.close()
    assert asked[0].path == "/api/v1/namespaces/n/pods/p/exec"
    assert asked[0].query.getall("command") == ["sh", "-c", "a b"]
    assert (asked[0].query["tty"], asked[0].query["stderr"], asked[0].query["container"]) == ("false", "true", "main")


async def test_a_terminal_that_is_refused_says_so() -> None:
    async with api_server(program(None)) as (api, _):
        with pytest.raises(ApiError) as refused:
            await open_terminal(api, POD, ["sh"], tty=True)
        assert refused.value.status == 403
