"""Ways into pods for a portal that runs outside of the cluster's network: each is a listener of ours that forwards through the API server.

nginx connects to it as to any other address. The API server's HTTP proxy would not do: it takes away the Authorization header, which
is the run's own.
"""

import asyncio
from contextlib import suppress

import aiohttp
import structlog

from apps.cluster.drivers.kubernetes.api import Api, ApiError, Socket
from apps.cluster.drivers.kubernetes.kinds import PODS
from apps.cluster.drivers.kubernetes.objects import Manifest, id_of, name_of, namespace_of
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1  # channels of the first port
_CHUNK = 65_536


class Tunnels:
    """One listener for each port of a pod that somebody has asked for, until the pod is gone."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._open: dict[tuple[str, int], asyncio.Server] = {}
        self._making = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()

    async def to(self, pod: Manifest, port: int) -> tuple[str, int]:
        """An address of this machine that leads to `port` of the pod."""
        key = (id_of(pod), port)
        async with self._making:
            if key not in self._open:
                where, name = namespace_of(pod), name_of(pod)

                async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    await self._serve(where, name, port, reader, writer)

                self._open[key] = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, number = self._open[key].sockets[0].getsockname()[:2]
        return host, number

    def drop(self, pod_id: str) -> None:
        """The pod is gone: whoever connects now is refused at once."""
        for key in [key for key in self._open if key[0] == pod_id]:
            self._open.pop(key).close()

    async def close(self) -> None:
        for server in self._open.values():
            server.close()
        self._open.clear()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(
        self, namespace: str, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            socket = await forward(self._api, namespace, name, port)
            async with socket:
                await _pump(socket, reader, writer)
        except (ApiError, Unavailable, OSError, aiohttp.ClientError) as problem:
            log.info("tunnel_failed", pod=name, port=port, problem=str(problem))
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def forward(api: Api, namespace: str, name: str, port: int) -> Socket:
    path = PODS.path(namespace, name, "portforward")
    return await api.websocket(path, params=[("ports", str(port))], protocols=(PROTOCOL,))


async def _pump(socket: Socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either side ends; half a connection cannot be closed here, so the first end is the end of both."""
    up = asyncio.create_task(_up(socket, reader))
    down = asyncio.create_task(_down(socket, writer))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _up(socket: Socket, reader: asyncio.StreamReader) -> None:
    while chunk := await reader.read(_CHUNK):
        await socket.send_bytes(bytes([_DATA]) + chunk)


async def _down(socket: Socket, writer: asyncio.StreamWriter) -> None:
    greeted: set[int] = set()
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, content = message.data[0], message.data[1:]
        if channel not in greeted:  # the first message of each channel repeats the port's number
            greeted.add(channel)
            content = content[2:]
        if channel == _DATA and content:
            writer.write(content)
            await writer.drain()
        elif channel == _ERROR and content:
            log.info("tunnel_refused", problem=bytes(content).decode(errors="replace"))
            return
