"""The node agent as the driver sees it: HTTP and JSON over a Unix socket. What it does not answer is `Unavailable`, never zero."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from apps.cluster.drivers.local.placement import Grant
from apps.core.errors import Conflict, InvalidInput, NotFound, Unavailable

_TIMEOUT = aiohttp.ClientTimeout(total=30)  # s; the agent answers in milliseconds, a machine under load in seconds
_SILENCE = aiohttp.ClientTimeout(
    total=None, sock_connect=10, sock_read=15
)  # s; a stream that says something each second
_LINE = 4 * 1024**2  # bytes; a batch of 16 cards with 100 claims each is under 1 MiB


class Refused(Unavailable):
    """The agent answered, and said that it cannot; asking again does not help."""


_KINDS: dict[int, type[Conflict | NotFound]] = {404: NotFound, 409: Conflict}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a program needs to use its share."""

    library_path: str
    env: dict[str, str]


class Agent:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def cards(self) -> dict[str, Any]:
        """The answer of `GET /cards`: `cards`, each with its `claims`, and `notes`."""
        answer: dict[str, Any] = await self._ask("GET", "/cards")
        return answer

    async def put_claim(self, name: str, grants: Sequence[Grant], uid: int, gid: int, group: str = "") -> Claim:
        """`group` is the folder of the run's control group in the tree of version 2, where it has one.

        Raises Conflict where the agent has no room for it, InvalidInput for a card that it does not know.
        """
        answer = await self._ask(
            "PUT", f"/claims/{name}", {"devices": _devices(grants), "uid": uid, "gid": gid, "group": group}
        )
        return Claim(library_path=answer["library_path"], env=dict(answer["env"]))

    async def change_claim(self, name: str, grants: Sequence[Grant]) -> None:
        """New limits for programs that run. Raises Conflict where the card has no room, NotFound where there is no such claim, and
        Unavailable where the agent does not read back what was asked for."""
        wanted = _devices(grants)
        answer = await self._ask("PATCH", f"/claims/{name}", {"devices": wanted})
        found = [{key: device.get(key) for key in wanted[0]} for device in answer["devices"]]
        if sorted(found, key=lambda d: d["uuid"]) != sorted(wanted, key=lambda d: d["uuid"]):
            raise Unavailable(f"The node agent has not taken over the new limits of {name}.", evidence={"found": found})

    async def drop_claim(self, name: str) -> None:
        """Missing is success. Raises Conflict while processes use it."""
        await self._ask("DELETE", f"/claims/{name}")

    async def claims(self) -> list[str]:
        answer = await self._ask("GET", "/claims")
        return [claim["name"] for claim in answer["claims"]]

    async def samples(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Batches from one connection; raises Unavailable when it ends, however it ends."""
        async with self._session(_SILENCE) as session, session.get("http://agent/samples") as response:
            async for line in response.content:
                yield json.loads(line)
        raise Unavailable("The node agent has ended the stream of figures.")

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        async with (
            self._session(_TIMEOUT) as session,
            session.request(method, f"http://agent{path}", json=body) as response,
        ):
            if response.status == 404 and method == "DELETE":
                return None
            answer = await response.json() if response.status != 204 else None
            if response.status >= 400:
                raise _refusal(response.status, answer)
            return answer

    @asynccontextmanager
    async def _session(self, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientSession]:
        """One session a call: the driver is used from several event loops (pages, authoriser), and the socket is local."""
        connector = aiohttp.UnixConnector(str(self._socket))
        try:
            async with aiohttp.ClientSession(connector=connector, timeout=limits, read_bufsize=_LINE) as session:
                yield session
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unavailable(
                f"The node agent does not answer at {self._socket}: {error or type(error).__name__}.",
                hint="It is started with the portal; see its log.",
            ) from error


def _devices(grants: Sequence[Grant]) -> list[dict[str, Any]]:
    return [{"uuid": g.card, "memory": g.memory, "compute": g.compute, "ceiling": g.ceiling} for g in grants]


def _refusal(status: int, answer: Any) -> Exception:
    said = answer if isinstance(answer, dict) else {}
    message = f"The node agent refuses: {said.get('message', f'status {status}')}"
    kind: type[Conflict | NotFound | InvalidInput | Refused]
    kind = _KINDS.get(status, InvalidInput if status < 500 else Refused)
    return kind(message, hint=said.get("hint", ""), evidence=said.get("evidence") or {})
