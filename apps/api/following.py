"""Follows the output of an experiment as server-sent events. Reads the driver and the rows; changes nothing.

Events: `log` (text, offset, next), `run` (it was started again; offsets begin anew), `end` (the run has ended and all
was sent, or the reader may no longer see it). The id of an event is `<run>:<offset to go on with>`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.sessions.backends.db import SessionStore
from django.db import close_old_connections
from django.db.models import Q

from apps.accounts.models import ApiToken, User
from apps.audit.context import Actor
from apps.cluster.services import reader
from apps.cluster.specs import LogChunk
from apps.core import bells, clock
from apps.core.errors import NotFound, Unavailable
from apps.workloads import selectors
from apps.workloads.models import Workload

LOOK_SECONDS = 1.0  # output rings no bell, so while it runs its file is looked at this often
QUIET_SECONDS = (
    15.0  # a comment is sent at least this often, so that proxies keep the connection, and rights are checked again
)
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader is: in which run, at which byte (negative: from the end)."""

    run: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "Position":
        run, _colon, offset = text.partition(":")
        if not (run.isascii() and run.isdigit() and offset.isascii() and offset.isdigit()):
            raise ValueError(f"“{text}” is no position")
        return cls(int(run[:9]), int(offset[:15]))

    def __str__(self) -> str:
        return f"{self.run}:{self.offset}"


class Bell:
    """Wakes on the bells of one workload, or after a while. The listener lives as long as the stream."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._rang = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        async for topics in bells.listen():
            if self._topic in topics or bells.ALL in topics:
                self._rang.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang within that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rang.wait()
        rang = self._rang.is_set()
        self._rang.clear()
        return rang

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def close_soon(self) -> None:
        """From another thread."""
        with suppress(RuntimeError):  # the loop has ended, and all that it ran
            self._loop.call_soon_threadsafe(self._task.cancel)


class Follower:
    """One reader of one experiment's output, from `position` on, until it ends or may no longer be seen. To be iterated once."""

    def __init__(self, reading: "Reading", workload_id: UUID, position: Position) -> None:
        self._reading = reading
        self._workload_id = workload_id
        self._position = position
        self._bell: Bell | None = None

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self._events()

    def close(self) -> None:
        """Django calls it, in a thread, when the response is over; a reader who left would else be listened for until a collection."""
        if self._bell is not None:
            self._bell.close_soon()

    async def _events(self) -> AsyncGenerator[bytes]:
        self._bell = bell = Bell(f"workload:{self._workload_id}")
        try:
            yield b"retry: 2000\n\n"
            async for event in self._until_end(bell):
                yield event
        finally:
            await bell.close()

    async def _until_end(self, bell: Bell) -> AsyncGenerator[bytes]:
        quiet = 0.0
        workload = await self._reading.look(self._workload_id)
        while workload is not None:
            if workload.run != self._position.run:
                self._position = Position(workload.run, 0)
                yield self._event("run", {"run": workload.run})
            chunk = await self._next(workload)
            if chunk is not None and chunk.text:
                self._position = Position(workload.run, chunk.next)
                yield self._event("log", {"text": chunk.text, "offset": chunk.offset, "next": chunk.next})
                continue
            if workload.has_ended and chunk is not None:
                yield self._event("end", {"phase": workload.phase, "reason": workload.reason})
                return
            rang = await bell.wait(LOOK_SECONDS)
            quiet += LOOK_SECONDS
            if quiet >= QUIET_SECONDS:
                yield b": still here\n\n"
            if rang or quiet >= QUIET_SECONDS:
                quiet = 0.0
                workload = await self._reading.look(self._workload_id)
        yield self._event("end", {"phase": None, "reason": "not_found"})

    async def _next(self, workload: Workload) -> LogChunk | None:
        """None where the cluster does not answer: that is no end."""
        try:
            return await reader().logs(workload.uid, offset=self._position.offset, limit=CHUNK_BYTES)
        except NotFound:
            return LogChunk("", self._position.offset, self._position.offset, eof=True)
        except Unavailable:
            return None

    def _event(self, name: str, data: dict[str, Any]) -> bytes:
        return f"event: {name}\nid: {self._position}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads, asked anew each time: a person locked out, a token revoked, a session ended sees nothing more."""

    actor: Actor
    session_key: str | None

    @sync_to_async
    def look(self, workload_id: UUID) -> Workload | None:
        try:
            return self._visible(workload_id)
        finally:
            close_old_connections()  # a reader stays for hours; its place in the pool is for requests

    def _visible(self, workload_id: UUID) -> Workload | None:
        user = User.objects.filter(pk=str(self.actor.user_id), is_active=True).first()
        if user is None or not self._still_signed_in():
            return None
        with suppress(NotFound):
            return selectors.get(replace(self.actor, user=user), workload_id)
        return None

    def _still_signed_in(self) -> bool:
        if self.actor.token_id:
            living = Q(expiry=None) | Q(expiry__gt=clock.now())
            return bool(ApiToken.objects.filter(living, id=self.actor.token_id).exists())
        return self.session_key is None or bool(SessionStore().exists(self.session_key))
