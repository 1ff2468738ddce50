"""Whether a run answers: one request that waits. Only a refused connection is tried again, after pauses in proportion to the wait so far:
a server that has just come up is found before that has cost more than a thirtieth of the time that it took."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from apps.cluster.specs import Endpoint

_PART = 1 / 32  # of the wait so far, that the next pause is; in s at least ...
_SHORTEST, _LONGEST = 0.02, 0.5  # ... and at most
_FAR = 5.0  # s after an attempt whose packets nobody answered
_CONNECT = 3.0  # s for a connection; addresses in a cluster answer at once or not at all
_CONNECTING = 512  # connections under way at once; those that are made and wait do not count
_HEAD = 65_536  # bytes of an answer's first line, at most

Sleep = Callable[[float], Awaitable[None]]


class Prober:
    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._places = asyncio.Semaphore(_CONNECTING)

    async def answered(self, endpoint: Endpoint, path: str) -> None:
        """Return when GET `path` is answered with a status below 500. Ends otherwise only by being cancelled."""
        waited = 0.0
        while True:
            pause = min(_LONGEST, max(_SHORTEST, waited * _PART))
            try:
                if await self._answers(endpoint, path):
                    return
            except TimeoutError:
                pause = _FAR
            except (OSError, ValueError, asyncio.IncompleteReadError):
                pass  # refused, reset, or no HTTP: not there yet
            await self._sleep(pause)
            waited += pause

    async def _answers(self, endpoint: Endpoint, path: str) -> bool:
        async with self._places, asyncio.timeout(_CONNECT):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=_HEAD)
        try:
            writer.write(_request(endpoint, path))
            await writer.drain()
            words = (await reader.readline()).split(None, 2)
            return len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() and int(words[1]) < 500
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _request(endpoint: Endpoint, path: str) -> bytes:
    headers = {"Host": f"{endpoint.host}:{endpoint.port}", "Connection": "close", **endpoint.headers}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()
