"""The websocket of a terminal: bytes of the keyboard in, bytes of the screen out, and who may is asked again and again.

Binary messages are bytes; text messages are JSON: the browser sends `{"size": [columns, rows]}` and `{"ack": bytes}`, and is sent
`{"started": true}` and `{"ended": exit code or null}`. The program waits for a browser that has not confirmed what it was sent, so
one that prints without end fills nobody's memory.
"""

import asyncio
import contextlib
import json
from collections import Counter
from typing import Any, ClassVar
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError

from apps.accounts.actors import actor_for
from apps.accounts.models import User
from apps.audit import services as audit
from apps.cluster import services as cluster
from apps.cluster.protocol import Terminal
from apps.core.errors import PortalError
from apps.dashboard.live import sessions
from apps.workloads import selectors as workloads
from apps.workloads.models import Phase, Workload

SIGNED_OUT, REFUSED, AWAY, TOO_MANY = 4401, 4403, 4404, 4429  # close codes; static/js/terminal.js knows them
ENDED = 1000
MAX_TERMINALS = 8  # of one person, in one process
_AHEAD = 256 * 1024  # bytes that the browser may be behind
_MOST = 64 * 1024  # bytes of one message
_SHELL = (
    "/bin/sh",
    "-c",
    "cd ~ 2>/dev/null; export TERM=xterm-256color; if command -v bash >/dev/null; then exec bash -i; else exec sh -i; fi",
)


class TerminalConsumer(AsyncWebsocketConsumer):
    look_again: ClassVar[float] = 30.0  # seconds
    open_of: ClassVar[Counter[UUID]] = Counter()

    user_id: UUID | None = None  # once counted
    terminal: Terminal | None = None
    tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        await self.accept()
        code = await self._enter()
        if code is not None:
            await self.close(code)

    async def _enter(self) -> int | None:
        """The code with which to refuse; None where the terminal is open."""
        self.session_key = sessions.session_key_of(self.scope)
        self.workload_id: UUID = self.scope["url_route"]["kwargs"]["workload_id"]
        user, workload = await database_sync_to_async(self._asker)()
        offered = cluster.terminals()
        if user is None:
            return SIGNED_OUT
        if workload is None:
            return REFUSED
        if offered is None or workload.phase != Phase.READY:
            return AWAY
        if self.open_of[user.id] >= MAX_TERMINALS:
            return TOO_MANY
        self.open_of[user.id] += 1
        self.user_id = user.id
        await database_sync_to_async(self._record)(user, workload)
        try:
            self.terminal = await offered.exec(workload.uid, _SHELL)
        except PortalError:
            return AWAY
        self.behind, self.caught_up = 0, asyncio.Event()
        await self.send(text_data=json.dumps({"started": True}))
        name = f"terminal-{user.username}"
        self.tasks = (
            asyncio.create_task(self._show(self.terminal), name=name),
            asyncio.create_task(self._watch(), name=f"{name}-watch"),
        )
        return None

    def _asker(self) -> tuple[User | None, Workload | None]:
        """Who asks, and the workload if they may enter it: its owner while a member of its tenant, and operators."""
        user = sessions.signed_in(self.session_key)
        known = Workload.objects.filter(id=self.workload_id, deleted_at=None).first()
        if user is None or known is None:
            return user, None
        return user, workloads.reachable(user, known.slug)

    def _record(self, user: User, workload: Workload) -> None:
        """Entering somebody else's is audited, as it is by the gateway."""
        if workload.owner_id != user.id:
            client = self.scope.get("client") or (None,)
            actor = actor_for(user, ip=client[0])
            audit.record(actor=actor, verb="workload.terminal", target=workload, tenant=workload.tenant_id)

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the name is the framework's
        if self.user_id is not None:
            self.open_of[self.user_id] -= 1
            self.user_id = None
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.terminal is not None:
            with contextlib.suppress(PortalError, OSError):
                await self.terminal.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        terminal = self.terminal
        if terminal is None:
            return
        try:
            if bytes_data:
                await terminal.write(bytes_data[:_MOST])
            elif text_data:
                await self._told(terminal, json.loads(text_data[:1000]))
        except (PortalError, OSError):
            await self.close(AWAY)
        except ValueError:
            return

    async def _told(self, terminal: Terminal, content: Any) -> None:
        if not isinstance(content, dict):
            return
        size, read = content.get("size"), content.get("ack")
        if isinstance(size, list) and len(size) == 2 and all(type(n) is int and 1 <= n <= 1000 for n in size):
            await terminal.resize(size[0], size[1])
        if type(read) is int and read > 0:
            self.behind = max(0, self.behind - read)
            self.caught_up.set()

    async def _show(self, terminal: Terminal) -> None:
        with contextlib.suppress(PortalError, OSError):
            async for content in terminal.output():
                self.behind += len(content)
                await self.send(bytes_data=content)
                while self.behind > _AHEAD:
                    self.caught_up.clear()
                    await self.caught_up.wait()
        await self.send(text_data=json.dumps({"ended": terminal.exit_code}))
        await self.close(ENDED)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.look_again)
            try:
                user, workload = await database_sync_to_async(self._asker)()
            except DatabaseError:  # nobody stays in because it cannot be asked
                await self.close(AWAY)
                return
            if user is None or workload is None:
                await self.close(SIGNED_OUT if user is None else REFUSED)
                return
