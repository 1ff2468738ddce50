"""The terminal of an experiment: who may, what goes through, how it ends. The program is a real shell on a real pseudo-terminal."""

import asyncio
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from channels.db import database_sync_to_async
from django.conf import settings as django_settings
from pytest_django import Settings

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.audit.models import Event
from apps.cluster import services as cluster
from apps.dashboard.live import terminal as live
from apps.tenants.models import Membership
from apps.workloads.models import Phase, Workload
from portal.asgi import application
from tests.factories import World
from tests.fakes.cluster import FakeCluster
from tests.unit.dashboard.conftest import Make, Person
from tests.unit.dashboard.test_consumer import _sign_in
from tests.unit.dashboard.websocket import WAIT, WebSocket

Connect = Callable[[Actor, Workload], Awaitable[WebSocket]]


class Shell:
    """What a driver's terminal is, for a program of this machine."""

    def __init__(self, program: "subprocess.Popen[str]", screen: int) -> None:
        self.program, self.screen = program, screen
        self.exit_code: int | None = None
        self.readable = asyncio.Event()
        os.set_blocking(screen, False)

    async def write(self, content: bytes) -> None:
        os.write(self.screen, content)

    async def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while True:
            loop.add_reader(self.screen, self.readable.set)
            await self.readable.wait()
            loop.remove_reader(self.screen)
            self.readable.clear()
            try:
                content = os.read(self.screen, 4096)
            except OSError:  # as a pseudo-terminal says that nobody is at its other end
                break
            yield content
        self.exit_code = self.program.wait(WAIT)

    async def close(self) -> None:
        Shells.closed.append(self)
        asyncio.get_running_loop().remove_reader(self.screen)
        self.program.kill()
        self.program.wait(WAIT)
        os.close(self.screen)


class Shells(FakeCluster):
    closed: ClassVar[list[Shell]] = []

    async def exec(self, uid: str, command: Sequence[str], *, tty: bool = True) -> Shell:
        assert tty
        screen, theirs = os.openpty()
        surroundings = {"HOME": "/tmp", "PATH": os.environ["PATH"]}
        ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        words = ["setsid", "-c", *command]
        program = await asyncio.to_thread(subprocess.Popen, words, env=surroundings, **ends)  # type: ignore[arg-type]
        os.close(theirs)
        return Shell(program, screen)


@pytest.fixture
def shells(settings: Settings) -> Iterator[None]:
    settings.CLUSTER_DRIVER = f"{__name__}.Shells"
    cluster.reader.cache_clear()
    Shells.closed.clear()
    live.TerminalConsumer.open_of.clear()
    yield
    cluster.reader.cache_clear()


@pytest.fixture
async def connect(shells: None, bell_dir: Path) -> AsyncIterator[Connect]:
    opened: list[WebSocket] = []

    async def connected(actor: Actor, row: Workload, origin: str = "http://localhost") -> WebSocket:
        assert isinstance(actor.user, User)
        key = await database_sync_to_async(_sign_in)(actor.user)
        cookie = f"{django_settings.SESSION_COOKIE_NAME}={key}".encode()
        headers = [(b"origin", origin.encode()), (b"host", b"localhost"), (b"cookie", cookie)]
        socket = WebSocket(application, f"/ws/terminal/{row.id}", headers)
        opened.append(socket)
        assert await socket.connect()
        return socket

    yield connected
    for socket in opened:
        await socket.disconnect()


async def _read(socket: WebSocket, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        event = await socket.output()
        assert event["type"] == "websocket.send", (event, seen)
        seen += event.get("bytes") or b""
    return seen


async def _type(socket: WebSocket, text: bytes) -> None:
    await socket.send_input({"type": "websocket.receive", "bytes": text})


async def _closed(socket: WebSocket) -> int:
    while True:
        event = await socket.output()
        if event["type"] == "websocket.close":
            return int(event["code"])


def _events() -> list[tuple[str, str]]:
    return list(Event.objects.filter(verb="workload.terminal").values_list("actor_label", "target_label"))


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
class TestSocket:
    async def test_what_is_typed_is_run_and_shown(self, world: World, make: Make, connect: Connect) -> None:
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        assert await socket.receive_json() == {"started": True}
        await _type(socket, b"echo $((6*7))\r")
        await _read(socket, b"42\r\n")
        assert await database_sync_to_async(_events)() == [], "one's own is not recorded"

    async def test_the_size_of_the_window_reaches_the_program(self, world: World, make: Make, connect: Connect) -> None:
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        await socket.send_json({"size": [123, 45]})
        await _type(socket, b"stty size\r")
        await _read(socket, b"45 123")
        for nonsense in ({"size": [0, 5000]}, {"size": "big"}, [1], {"ack": -3}):
            await socket.send_json(nonsense)
        await socket.send_input({"type": "websocket.receive", "text": "no json"})
        await _type(socket, b"stty size | tr 1 9\r")
        await _read(socket, b"45 923")

    async def test_the_end_of_the_shell_is_told_and_closes(self, world: World, make: Make, connect: Connect) -> None:
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        await _type(socket, b"exit 3\r")
        while True:
            event = await socket.output()
            if event.get("text") and "ended" in event["text"]:
                assert event["text"] == '{"ended": 3}'
                break
        assert await _closed(socket) == live.ENDED

    async def test_whoever_leaves_closes_the_program_and_gives_the_place_back(
        self, world: World, make: Make, connect: Connect
    ) -> None:
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        assert await socket.receive_json() == {"started": True}
        assert world.member.user_id is not None
        assert live.TerminalConsumer.open_of[world.member.user_id] == 1
        await socket.disconnect()
        assert len(Shells.closed) == 1
        assert live.TerminalConsumer.open_of[world.member.user_id] == 0

    @pytest.mark.parametrize("person", ["outsider", "stranger", "colleague", "manager", "viewer", "auditor"])
    async def test_nobody_else_is_let_in(self, world: World, make: Make, connect: Connect, person: str) -> None:
        row = await database_sync_to_async(make)()
        socket = await connect(getattr(world, person), row)
        assert await _closed(socket) == live.REFUSED
        await _type(socket, b"echo in\r")
        assert Shells.closed == []

    async def test_an_operator_is_let_in_and_it_is_recorded(self, world: World, make: Make, connect: Connect) -> None:
        row = await database_sync_to_async(make)("Baseline")
        socket = await connect(world.operator, row)
        assert await socket.receive_json() == {"started": True}
        assert await database_sync_to_async(_events)() == [(str(world.operator.user), "Baseline")]

    async def test_who_is_no_longer_a_member_is_put_out(
        self, world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live.TerminalConsumer, "look_again", 0.1)
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        assert await socket.receive_json() == {"started": True}
        await asyncio.sleep(0.5)
        await _type(socket, b"echo $((6*7))\r")
        await _read(socket, b"42\r\n")
        await database_sync_to_async(Membership.objects.filter(user=world.member.user).delete)()
        assert await _closed(socket) == live.REFUSED

    async def test_who_signs_out_is_put_out(
        self, world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live.TerminalConsumer, "look_again", 0.1)
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        assert isinstance(world.member.user, User)
        world.member.user.set_password("another one entirely")
        await database_sync_to_async(world.member.user.save)()
        assert await _closed(socket) == live.SIGNED_OUT

    async def test_what_does_not_run_has_no_terminal(self, world: World, make: Make, connect: Connect) -> None:
        row = await database_sync_to_async(make)("Stopped", Phase.STOPPED)
        assert await _closed(await connect(world.member, row)) == live.AWAY

    async def test_one_person_cannot_open_them_without_end(
        self, world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "MAX_TERMINALS", 1)
        row = await database_sync_to_async(make)()
        first = await connect(world.member, row)
        assert await first.receive_json() == {"started": True}
        assert await _closed(await connect(world.member, row)) == live.TOO_MANY

    async def test_a_program_that_prints_without_end_waits_for_the_browser(
        self, world: World, make: Make, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "_AHEAD", 8192)
        row = await database_sync_to_async(make)()
        socket = await connect(world.member, row)
        await _type(socket, b"yes\r")
        got = 0
        while not await socket.receive_nothing(0.5):
            got += len((await socket.output()).get("bytes") or b"")
        assert 8192 < got < 8192 + 2 * 4096 + 1000

    async def test_another_site_cannot_open_one(self, world: World, make: Make, shells: None) -> None:
        row = await database_sync_to_async(make)()
        assert isinstance(world.member.user, User)
        key = await database_sync_to_async(_sign_in)(world.member.user)
        cookie = f"{django_settings.SESSION_COOKIE_NAME}={key}".encode()
        headers = [(b"origin", b"http://evil.example"), (b"host", b"localhost"), (b"cookie", cookie)]
        socket = WebSocket(application, f"/ws/terminal/{row.id}", headers)
        assert not await socket.connect()
        await socket.wait(WAIT)


@pytest.mark.django_db
class TestPage:
    @pytest.mark.usefixtures("shells")
    def test_the_owner_finds_it_beside_open(self, world: World, make: Make, browser: Person) -> None:
        row = make()
        client = browser(world.member)
        assert f"/experiments/{row.id}/terminal/" in client.get(f"/experiments/{row.id}/").content.decode()
        page = client.get(f"/experiments/{row.id}/terminal/").content.decode()
        assert f'data-terminal="/ws/terminal/{row.id}"' in page
        assert "audit trail." not in page

    @pytest.mark.usefixtures("shells")
    def test_only_while_it_is_ready(self, world: World, make: Make, browser: Person) -> None:
        row = make("Soon", Phase.STARTING)
        assert "/terminal/" not in browser(world.member).get(f"/experiments/{row.id}/").content.decode()

    @pytest.mark.usefixtures("shells")
    def test_others_have_neither_button_nor_page(self, world: World, make: Make, browser: Person) -> None:
        row = make()
        for person, status in (("manager", 403), ("auditor", 403), ("outsider", 404), ("stranger", 404)):
            client = browser(getattr(world, person))
            assert "/terminal/" not in client.get(f"/experiments/{row.id}/").content.decode(), person
            assert client.get(f"/experiments/{row.id}/terminal/").status_code == status, person

    @pytest.mark.usefixtures("shells")
    def test_an_operator_is_told_that_it_is_recorded(self, world: World, make: Make, browser: Person) -> None:
        row = make()
        client = browser(world.operator)
        assert "Terminal as operator (recorded)" in client.get(f"/experiments/{row.id}/").content.decode()
        assert "in the audit trail" in client.get(f"/experiments/{row.id}/terminal/").content.decode()

    def test_a_driver_without_terminals_offers_none(self, world: World, make: Make, browser: Person) -> None:
        row = make()
        client = browser(world.member)
        assert "/terminal/" not in client.get(f"/experiments/{row.id}/").content.decode()
        assert client.get(f"/experiments/{row.id}/terminal/").status_code == 404
