"""A websocket server that echoes, and a client that is not the bottleneck: bytes over uvloop, no parsing beyond the handshake.

Run as a program it is the server: `python -m tests.bench.sockets PORT`.
"""

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import cast

import uvloop

MESSAGE = b"\x82\xa0" + bytes(4) + b"x" * 32  # one masked binary frame of 32 bytes
CLOSE = b"\x88\x80" + bytes(4)
_ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Door:
    """Where a proxy listens, and what a browser of its user would send."""

    port: int
    host: str
    cookie: str = ""

    @property
    def handshake(self) -> bytes:
        return (
            f"GET /ws HTTP/1.1\r\nHost: {self.host}\r\nCookie: {self.cookie}\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._open = cast(asyncio.Transport, transport), False  # uvloop's own is no subclass

    def data_received(self, data: bytes) -> None:
        if not self._open:
            self._open = True
            self._transport.write(_ACCEPTED)
        elif data.endswith(CLOSE):
            self._transport.close()
        else:
            self._transport.write(data)


class Client(asyncio.Protocol):
    """Sends the next message when the echo of the last one is complete. `rounds` counts; `limit` ends it."""

    def __init__(self, door: Door, limit: int | None = None) -> None:
        self._door, self._limit = door, limit
        self._open, self._missing = False, 0
        self.rounds = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._door.handshake)

    def data_received(self, data: bytes) -> None:
        if not self._open:
            if not data.startswith(b"HTTP/1.1 101"):
                self.closed.set_exception(RuntimeError(f"no websocket: {data[:80]!r}"))
                self.transport.abort()
                return
            self._open = True
            self._send()
            return
        self._missing -= len(data)
        if self._missing == 0:
            self.rounds += 1
            self._send()

    def _send(self) -> None:
        if self.rounds == self._limit:
            self.transport.write(CLOSE)
            return
        self._missing = len(MESSAGE)
        self.transport.write(MESSAGE)

    def connection_lost(self, _problem: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def _connect(door: Door, limit: int | None = None) -> Client:
    loop = asyncio.get_running_loop()
    _transport, client = await loop.create_connection(lambda: Client(door, limit), "127.0.0.1", door.port)
    return client


async def _echoes(door: Door, connections: int, seconds: float) -> float:
    clients = [await _connect(door) for _ in range(connections)]
    await asyncio.sleep(seconds / 10)  # all are open and busy
    before, began = sum(client.rounds for client in clients), time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(client.rounds for client in clients) - before) / (time.perf_counter() - began)
    for client in clients:
        client.transport.abort()
    await asyncio.gather(*(client.closed for client in clients))
    return rate


async def _open_and_close(door: Door, count: int, at_once: int) -> None:
    turns = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with turns:
            client = await _connect(door, limit=1)
            await asyncio.wait_for(client.closed, 60)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one())


def echoes(door: Door, connections: int, seconds: float) -> float:
    """Echoes per second over all connections."""
    return uvloop.run(_echoes(door, connections, seconds))


def open_and_close(door: Door, count: int, at_once: int = 20) -> None:
    """`count` websockets, each opened, used once and closed by both sides."""
    uvloop.run(_open_and_close(door, count, at_once))


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
