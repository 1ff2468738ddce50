"""A small server in the place of JupyterLab. It tells what reached it, echoes websockets, swallows and pours bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import WSMsgType, web

BLOCK = 256 * 1024  # bytes


class Upstream:
    """`seen` holds the headers and path of every request; `sockets` counts open websockets; `connections` who connected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.connections: set[tuple[str, int]] = set()
        self.open_sockets = 0
        self.closed = asyncio.Event()
        self.received = 0
        self.hold = asyncio.Event()

    def _note(self, request: web.Request) -> None:
        self.seen.append((request.raw_path, dict(request.headers)))
        assert request.transport is not None
        self.connections.add(request.transport.get_extra_info("peername"))

    async def tell(self, request: web.Request) -> web.Response:
        self._note(request)
        return web.json_response({"server": self.name, "path": request.raw_path, "headers": dict(request.headers)})

    async def echo(self, request: web.Request) -> web.WebSocketResponse:
        self._note(request)
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        self.open_sockets += 1
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await socket.send_str(message.data)
                elif message.type is WSMsgType.BINARY:
                    await socket.send_bytes(message.data)
        finally:
            self.open_sockets -= 1
            self.closed.set()
        return socket

    async def swallow(self, request: web.Request) -> web.Response:
        """`received` rises while the upload is still under way: that it streams is visible."""
        self._note(request)
        async for block in request.content.iter_any():
            self.received += len(block)
        return web.json_response({"bytes": self.received})

    async def pour(self, request: web.Request) -> web.StreamResponse:
        """The first block at once, the rest when the test says so."""
        self._note(request)
        size = int(request.query["bytes"])
        answer = web.StreamResponse(headers={"Content-Length": str(size)})
        await answer.prepare(request)
        await answer.write(bytes(BLOCK))
        await self.hold.wait()
        for _ in range(size // BLOCK - 1):
            await answer.write(bytes(BLOCK))
        return answer

    async def steer(self, request: web.Request) -> web.Response:
        """User code that tries to make nginx serve something internal, or to look like the authoriser."""
        return web.Response(
            text="steered nowhere",
            headers={
                "X-Accel-Redirect": "/_tessera/down",
                "X-Tessera-Target": "127.0.0.1:1",
                "X-Tessera-Cookie": "a=b",
            },
        )

    async def refuse(self, request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]), text="said by user code")


@asynccontextmanager
async def serving(name: str) -> AsyncIterator[Upstream]:
    upstream = Upstream(name)
    app = web.Application(client_max_size=0)
    app.router.add_get("/ws", upstream.echo)
    app.router.add_get("/api/events/subscribe", upstream.echo)
    app.router.add_post("/swallow", upstream.swallow)
    app.router.add_get("/pour", upstream.pour)
    app.router.add_get("/steer", upstream.steer)
    app.router.add_get("/refuse/{status}", upstream.refuse)
    app.router.add_route("*", "/{path:.*}", upstream.tell)
    runner = web.AppRunner(app, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.port = runner.addresses[0][1]
    try:
        yield upstream
    finally:
        await runner.cleanup()
