"""The websocket of a page: subscriptions in, frames out.

A topic is read when a bell for it rang, at most once a period, and in any case every few seconds: a lost bell loses nothing. One
message is on its way to a browser at a time; what changes meanwhile is read when it has confirmed, so a slow browser gets the
newest frame and no backlog.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.utils import timezone, translation

from apps.accounts.actors import actor_for
from apps.accounts.models import User
from apps.core import bells, clock
from apps.core.errors import NotFound
from apps.dashboard.live import sessions
from apps.dashboard.live.frames import Cursor
from apps.dashboard.live.hub import Hub, hub
from apps.dashboard.live.reading import Read, read_all
from apps.dashboard.live.topics import Topic, parse
from apps.dashboard.person import language_of, zone_of

SIGNED_OUT, STALE, TOO_MANY = 4401, 4408, 4429  # close codes; static/js/live.js knows them
MAX_SOCKETS = 24  # of one person: pages open at once
MAX_TOPICS = 16  # of one page


@dataclass(slots=True)
class Subscription:
    topic: Topic
    cursor: Cursor
    dirty: bool = True
    next_read: float = 0.0  # of the loop's clock

    def concerns(self, rung: frozenset[str]) -> bool:
        return bells.ALL in rung or not self.topic.bells.isdisjoint(rung)


class LiveConsumer(AsyncJsonWebsocketConsumer):
    period: ClassVar[float] = 1.0  # seconds between two reads of one topic
    safety: ClassVar[float] = 5.0  # seconds after which everything is read again and the session is looked at
    patience: ClassVar[float] = 30.0  # seconds that a browser may take to confirm a message

    user_id: UUID
    pump: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        await self.accept()
        self.hub: Hub = hub()
        self.session_key = sessions.session_key_of(self.scope)
        user = await database_sync_to_async(sessions.signed_in)(self.session_key)
        if user is None:
            await self.close(SIGNED_OUT)
            return
        if self.hub.count(user.id) >= MAX_SOCKETS:
            await self.close(TOO_MANY)
            return
        self.user: User = user
        self.user_id = user.id
        self.language = language_of(user, self._asked_language())
        self.zone = zone_of(self.scope.get("cookies", {}))
        self.subscriptions: dict[str, Subscription] = {}
        self.wake, self.confirmed = asyncio.Event(), asyncio.Event()
        self.sent = 0
        self.hub.join(self)
        self.pump = asyncio.create_task(self._pump(), name=f"live-{user.username}")

    def _asked_language(self) -> str:
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))
        return query.get("lang", [""])[0]

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the name is the framework's
        if self.pump is None:
            return
        self.hub.leave(self)
        self.pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.pump

    def rang(self, topics: frozenset[str]) -> None:
        for subscription in self.subscriptions.values():
            if subscription.concerns(topics):
                subscription.dirty = True
                self.wake.set()

    async def receive_json(self, content: Any, **_kwargs: Any) -> None:
        if self.pump is None or not isinstance(content, dict):
            return
        if content.get("ack") == self.sent:
            self.confirmed.set()
        wanted = content.get("subscribe")
        if isinstance(wanted, dict):
            await self._subscribe(wanted)
        for name in content.get("unsubscribe") or []:
            self.subscriptions.pop(str(name), None)

    async def _subscribe(self, wanted: dict[str, Any]) -> None:
        gone = []
        for name, cursor in list(wanted.items())[:MAX_TOPICS]:
            try:
                topic = await database_sync_to_async(parse)(str(name), actor_for(self.user))
            except NotFound:
                gone.append(str(name))
                continue
            if len(self.subscriptions) < MAX_TOPICS or name in self.subscriptions:
                self.subscriptions[str(name)] = Subscription(topic, Cursor.of(cursor))
        if gone:
            await self.send_json({"gone": gone, "now": clock.now().timestamp()})
        self.wake.set()

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        look = loop.time() + self.safety
        while True:
            now = loop.time()
            if now >= look:
                look = now + self.safety
                if not await self._still_welcome():
                    return
                for subscription in self.subscriptions.values():
                    subscription.dirty = True
                await self._bring(self.subscriptions, even_if_nothing=True)
            else:
                await self._bring([name for name, s in self.subscriptions.items() if self._due(s, now)])
            await self._rest(look)

    def _due(self, subscription: Subscription, now: float) -> bool:
        return (subscription.dirty or subscription.topic.ticks) and now >= subscription.next_read

    async def _rest(self, look: float) -> None:
        """Until the next subscription is due, a bell rings, or it is time to look at everything."""
        waiting = [s.next_read for s in self.subscriptions.values() if s.dirty or s.topic.ticks]
        self.wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min([look, *waiting])):
                await self.wake.wait()

    async def _still_welcome(self) -> bool:
        user = await database_sync_to_async(sessions.signed_in)(self.session_key)
        if user is None:
            await self.close(SIGNED_OUT)
            return False
        self.user = user
        return True

    async def _bring(self, names: Iterable[str], *, even_if_nothing: bool = False) -> None:
        """Read the topics and send what is new, then wait until the browser has it."""
        wanted = {name: self.subscriptions[name] for name in names}
        if not wanted and not even_if_nothing:
            return
        now = asyncio.get_running_loop().time()
        for subscription in wanted.values():
            subscription.dirty, subscription.next_read = False, now + self.period
        read = await database_sync_to_async(self._read)({name: (s.topic, s.cursor) for name, s in wanted.items()})
        for name, cursor in read.cursors.items():
            # A page that subscribed anew meanwhile keeps the cursor that it named.
            if self.subscriptions.get(name) is wanted[name]:
                wanted[name].cursor = cursor
        for name in read.gone:
            self.subscriptions.pop(name, None)
        if read.frames or read.gone or even_if_nothing:
            await self._send(read)

    def _read(self, wanted: dict[str, tuple[Topic, Cursor]]) -> Read:
        with translation.override(self.language), timezone.override(self.zone):
            return read_all(actor_for(self.user), wanted)

    async def _send(self, read: Read) -> None:
        self.sent += 1
        self.confirmed.clear()
        frames = [frame.as_json() for frame in read.frames]
        await self.send_json({"n": self.sent, "now": clock.now().timestamp(), "frames": frames, "gone": read.gone})
        try:
            async with asyncio.timeout(self.patience):
                await self.confirmed.wait()
        except TimeoutError:
            await self.close(STALE)
            raise asyncio.CancelledError from None
