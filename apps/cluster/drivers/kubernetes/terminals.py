"""A program in a running container, for the terminal of a page: bytes in, bytes out, the window's size, the exit code."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import aiohttp

from apps.cluster.drivers.kubernetes.api import Api, Socket
from apps.cluster.drivers.kubernetes.kinds import PODS
from apps.cluster.drivers.kubernetes.manifests import CONTAINER
from apps.cluster.drivers.kubernetes.objects import Manifest, name_of, namespace_of

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255


class Terminal:
    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._owned: AsyncExitStack | None = None
        self.exit_code: int | None = None  # once `output` has ended; None where the connection broke

    def owns(self, stack: AsyncExitStack) -> None:
        """What ends with it."""
        self._owned = stack

    async def write(self, content: bytes) -> None:
        await self._socket.send_bytes(bytes([_STDIN]) + content)

    async def end_input(self) -> None:
        """Only the newer protocol can say so; with the older one the program goes on waiting."""
        if self._socket.protocol == _PROTOCOLS[0]:
            await self._socket.send_bytes(bytes([_CLOSE, _STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = json.dumps({"Width": columns, "Height": rows})
        await self._socket.send_bytes(bytes([_RESIZE]) + size.encode())

    async def output(self) -> AsyncIterator[bytes]:
        """What the program writes, to either of its outputs, until it ends."""
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, content = message.data[0], bytes(message.data[1:])
            if channel in (_STDOUT, _STDERR) and content:
                yield content
            elif channel == _STATUS:
                self.exit_code = _exit_code(content)

    async def close(self) -> None:
        await self._socket.close()
        if self._owned is not None:
            await self._owned.aclose()


async def open_terminal(api: Api, pod: Manifest, command: Sequence[str], *, tty: bool) -> Terminal:
    params = [("command", word) for word in command]
    params += [("container", CONTAINER), ("stdin", "true"), ("stdout", "true"), ("tty", str(tty).lower())]
    if not tty:
        params.append(("stderr", "true"))
    path = PODS.path(namespace_of(pod), name_of(pod), "exec")
    return Terminal(await api.websocket(path, params=params, protocols=_PROTOCOLS))


def _exit_code(content: bytes) -> int | None:
    try:
        told = json.loads(content)
        if told.get("status") == "Success":
            return 0
        causes = (told.get("details") or {}).get("causes") or ()
        return next((int(c["message"]) for c in causes if c.get("reason") == "ExitCode"), None)
    except (ValueError, KeyError, AttributeError):
        return None
