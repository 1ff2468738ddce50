"""The websocket of a page, with real bells and a real session."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.core import bells
from apps.dashboard.live import consumer as live
from apps.workloads import services
from apps.workloads.models import Workload
from portal.asgi import application
from tests.factories import World
from tests.unit.dashboard.conftest import Make
from tests.unit.dashboard.websocket import WAIT, WebSocket

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
Connect = Callable[[Actor], Awaitable[WebSocket]]


def _sign_in(user: User) -> str:
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


def _socket(session_key: str, origin: str = "http://localhost") -> WebSocket:
    headers = [
        (b"origin", origin.encode()),
        (b"host", b"localhost"),
        (b"cookie", f"{settings.SESSION_COOKIE_NAME}={session_key}".encode()),
    ]
    return WebSocket(application, "/ws/live?lang=en", headers)


@pytest.fixture
async def connect(bell_dir: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    """Sockets that look again after tenths of a second, so that tests need not wait for whole ones."""
    monkeypatch.setattr(live.LiveConsumer, "period", 0.05)
    opened: list[WebSocket] = []

    async def connected(actor: Actor) -> WebSocket:
        assert isinstance(actor.user, User)
        socket = _socket(await database_sync_to_async(_sign_in)(actor.user))
        opened.append(socket)
        assert await socket.connect()
        return socket

    yield connected
    for socket in opened:
        await socket.disconnect()


async def _next(socket: WebSocket, wanted: Callable[[dict[str, Any]], bool] = lambda message: True) -> dict[str, Any]:
    """The next message of that sort; every message is confirmed, as a browser does."""
    while True:
        message: dict[str, Any] = await socket.receive_json()
        if "n" in message:
            await socket.send_json({"ack": message["n"]})
        if wanted(message):
            return message


def _has_frames(message: dict[str, Any]) -> bool:
    return bool(message.get("frames"))


async def _stop(actor: Actor, row: Workload) -> None:
    await database_sync_to_async(services.stop)(actor=actor, workload=row)


async def test_a_change_reaches_the_page_by_its_bell(world: World, make: Make, connect: Connect) -> None:
    row = await database_sync_to_async(make)()
    socket = await connect(world.member)
    await socket.send_json({"subscribe": {f"workload:{row.id}": None}})
    first = await _next(socket, _has_frames)
    assert first["frames"][0]["snapshot"]["parts"]["head"]
    await _stop(world.member, row)
    frame = (await _next(socket, _has_frames))["frames"][0]
    assert "stopping" in frame["patch"]["parts"]["head"]["html"]
    assert frame["from"] == first["frames"][0]["seq"]


async def test_a_page_that_comes_back_is_sent_what_it_missed(world: World, make: Make, connect: Connect) -> None:
    row = await database_sync_to_async(make)()
    name = f"workload:{row.id}"
    first = await connect(world.member)
    await first.send_json({"subscribe": {name: None}})
    seen = (await _next(first, _has_frames))["frames"][0]
    tags = {part: each["tag"] for part, each in seen["snapshot"]["parts"].items()}
    await _stop(world.member, row)
    second = await connect(world.member)
    await second.send_json({"subscribe": {name: {"seq": seen["seq"], "tags": tags}}})
    frame = (await _next(second, _has_frames))["frames"][0]
    assert frame["from"] == seen["seq"]
    assert "share" not in frame["patch"]["parts"]


async def test_an_outsider_is_told_that_there_is_nothing(world: World, make: Make, connect: Connect) -> None:
    row = await database_sync_to_async(make)()
    socket = await connect(world.outsider)
    await socket.send_json({"subscribe": {f"workload:{row.id}": None, "nonsense": None}})
    first = await _next(socket, lambda message: bool(message.get("gone")))
    second = await _next(socket, lambda message: bool(message.get("gone")))
    assert {*first["gone"], *second["gone"]} == {f"workload:{row.id}", "nonsense"}


async def test_a_slow_page_gets_the_newest_frame_and_no_backlog(world: World, make: Make, connect: Connect) -> None:
    row = await database_sync_to_async(make)()
    socket = await connect(world.member)
    await socket.send_json({"subscribe": {f"workload:{row.id}": None}})
    unconfirmed = await socket.receive_json()
    for name in ("one", "two", "three"):
        await database_sync_to_async(services.rename)(actor=world.member, workload=row, name=name)
    await _stop(world.member, row)
    assert await socket.receive_nothing(0.3)
    await socket.send_json({"ack": unconfirmed["n"]})
    frame = (await _next(socket, _has_frames))["frames"][0]
    assert frame["seq"] == unconfirmed["frames"][0]["seq"] + 1
    assert "stopping" in frame["patch"]["parts"]["head"]["html"]


async def test_a_lost_bell_loses_nothing(
    world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveConsumer, "safety", 0.2)
    row = await database_sync_to_async(make)()
    socket = await connect(world.member)
    await socket.send_json({"subscribe": {f"workload:{row.id}": None}})
    await _next(socket, _has_frames)
    await database_sync_to_async(Workload.objects.filter(id=row.id).update)(phase="failed", reason="crashed")
    assert "failed" in (await _next(socket, _has_frames))["frames"][0]["patch"]["parts"]["head"]["html"]


async def test_a_quiet_page_still_hears_that_the_server_is_there(
    world: World, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveConsumer, "safety", 0.1)
    socket = await connect(world.member)
    message = await _next(socket)
    assert message["frames"] == []
    assert message["now"] > 0


async def test_the_end_of_the_session_closes_the_socket(
    world: World, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveConsumer, "safety", 0.1)
    socket = await connect(world.member)
    await _next(socket)
    store = import_module(settings.SESSION_ENGINE).SessionStore
    await database_sync_to_async(store.get_model_class().objects.all().delete)()
    assert await socket.close_code() == live.SIGNED_OUT


async def test_a_locked_account_closes_the_socket(
    world: World, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveConsumer, "safety", 0.1)
    socket = await connect(world.member)
    await database_sync_to_async(User.objects.filter(username="member").update)(is_active=False)
    assert await socket.close_code() == live.SIGNED_OUT


async def test_a_page_that_confirms_nothing_is_closed(
    world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.LiveConsumer, "patience", 0.1)
    row = await database_sync_to_async(make)()
    socket = await connect(world.member)
    await socket.send_json({"subscribe": {f"workload:{row.id}": None}})
    await socket.receive_json()
    assert await socket.close_code() == live.STALE


async def test_nobody_listens_without_signing_in(world: World, bell_dir: Path) -> None:
    socket = _socket("no-such-session")
    assert await socket.connect()
    assert await socket.close_code() == live.SIGNED_OUT


async def test_a_foreign_page_cannot_connect(world: World, bell_dir: Path) -> None:
    assert isinstance(world.member.user, User)
    key = await database_sync_to_async(_sign_in)(world.member.user)
    assert not await _socket(key, origin="https://elsewhere.example").connect()


async def test_one_person_opens_only_so_many(world: World, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_SOCKETS", 2)
    for _ in range(2):
        await connect(world.member)
    third = await connect(world.member)
    assert await third.close_code() == live.TOO_MANY
    other = await connect(world.colleague)
    await other.send_json({"subscribe": {"cluster:": None}})
    assert (await _next(other, _has_frames))["frames"]


async def test_nonsense_is_ignored(world: World, connect: Connect) -> None:
    socket = await connect(world.member)
    nonsense: Any
    for nonsense in ([], 5, {"subscribe": 5}, {"ack": "x"}, {"subscribe": {"cluster:": "x"}}):
        await socket.send_json(nonsense)
    assert (await _next(socket, _has_frames))["frames"][0]["topic"] == "cluster:"


async def test_a_bell_for_everything_concerns_every_topic(world: World, make: Make) -> None:
    from apps.dashboard.live.frames import Cursor
    from apps.dashboard.live.topics import parse

    row = await database_sync_to_async(make)()
    topic = await database_sync_to_async(parse)(f"workload:{row.id}", world.member)
    subscription = live.Subscription(topic, Cursor())
    assert subscription.concerns(frozenset({bells.ALL}))
    assert subscription.concerns(frozenset({f"workload:{row.id}"}))
    assert not subscription.concerns(frozenset({"workload:other", "controller"}))


async def test_the_listener_ends_with_the_last_socket_and_survives_an_error() -> None:
    from uuid import uuid4

    from apps.dashboard.live import hub as hubs

    calls = asyncio.Queue[int]()

    async def broken() -> AsyncIterator[frozenset[str]]:
        calls.put_nowait(1)
        raise OSError("no sockets here")
        yield frozenset()

    class Deaf:
        user_id = uuid4()

        def rang(self, topics: frozenset[str]) -> None: ...

    hub = hubs.Hub(broken)
    socket = Deaf()
    hub.join(socket)
    assert await asyncio.wait_for(calls.get(), WAIT)
    assert hub.count(socket.user_id) == 1
    hub.leave(socket)
    assert hub._task is None
