"""The event stream of an experiment's output, over ASGI as in production."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test import AsyncClient
from pytest_django import Settings

from apps.accounts.models import ApiToken, User
from apps.api import following
from apps.api.following import Position
from apps.cluster.specs import LogChunk
from apps.core import bells
from apps.core.errors import NotFound, Unavailable
from apps.experiments.services import request_experiment
from apps.workloads.models import Phase, Workload
from tests.factories import NO_GPU, World
from tests.factories import world as make_world
from tests.unit.api.conftest import token_for

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 20  # seconds that a test waits for an event before it gives up


class Output:
    """Stands for the driver: one growing text, or a reason not to answer."""

    def __init__(self) -> None:
        self.text = ""
        self.trouble: Exception | None = None

    async def logs(self, _uid: str, *, offset: int = 0, limit: int = 65536) -> LogChunk:
        if self.trouble is not None:
            raise self.trouble
        data = self.text.encode()
        start = max(len(data) + offset, 0) if offset < 0 else min(offset, len(data))
        part = data[start : start + limit]
        return LogChunk(part.decode(), start, start + len(part), eof=False)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, bell_dir: Path) -> Output:
    made = Output()
    monkeypatch.setattr("apps.api.following.reader", lambda: made)
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(following, "QUIET_SECONDS", 0.05)
    return made


def _setting() -> tuple[World, Workload, str]:
    world = make_world()
    workload = request_experiment(
        actor=world.member, tenant=world.lab, name="Talks", environment=world.environment, resources=NO_GPU
    )
    return world, workload, token_for(world.member)


async def _until(events: AsyncIterator[dict[str, Any]], name: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if event["event"] == name:
                return event
    raise AssertionError(f"the stream ended without “{name}”")


async def _events(content: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """Parsed as a browser would; comments are given as event ""."""
    buffer = ""
    async for chunk in content:
        buffer += chunk.decode()
        while "\n\n" in buffer:
            block, buffer = buffer.split("\n\n", 1)
            lines = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
            found = dict(line for line in lines if len(line) == 2)
            yield {"event": "", **found, "data": json.loads(found.get("data", "null"))}


@asynccontextmanager
async def _following(workload: Workload, token: str, query: str = "", **headers: str) -> AsyncIterator[Any]:
    response: Any = await AsyncClient().get(
        f"/api/v1/experiments/{workload.id}/logs{query}",
        headers={"Authorization": f"Bearer {token}", "Accept": "text/event-stream", **headers},
    )
    assert response.status_code == 200, getattr(response, "content", b"")
    assert response["Content-Type"] == "text/event-stream"
    async with aclosing(aiter(response)) as content, aclosing(_events(content)) as events:
        yield events
    await sync_to_async(response.close)()  # as the ASGI handler does, also where the reader left


async def _end(workload: Workload, phase: str = Phase.STOPPED) -> None:
    await Workload.objects.filter(id=workload.id).aupdate(phase=phase)
    await sync_to_async(bells.ring)(f"workload:{workload.id}")


async def test_what_is_there_comes_first_then_what_is_written_then_the_end(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.text = "hello\n"
    async with _following(workload, token) as events:
        first = await _until(events, "log")
        assert first["data"] == {"text": "hello\n", "offset": 0, "next": 6}
        assert first["id"] == "1:6"
        output.text += "世界\n"
        second = await _until(events, "log")
        assert second["data"]["text"] == "世界\n"
        assert second["id"] == "1:13"
        await _end(workload)
        assert (await _until(events, "end"))["data"]["phase"] == "stopped"


async def test_a_reader_resumes_after_the_last_event(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.text = "seen\nnew\n"
    async with _following(workload, token, **{"Last-Event-ID": "1:5"}) as events:
        assert (await _until(events, "log"))["data"] == {"text": "new\n", "offset": 5, "next": 9}


async def test_a_new_run_is_told_and_begins_at_its_start(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.text = "second run\n"
    await Workload.objects.filter(id=workload.id).aupdate(run=2)
    async with _following(workload, token, **{"Last-Event-ID": "1:500"}) as events:
        assert (await _until(events, "run"))["data"] == {"run": 2}
        assert (await _until(events, "log"))["data"]["offset"] == 0


async def test_a_reader_may_begin_at_the_tail(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.text = "old\nlast\n"
    async with _following(workload, token, "?offset=-5") as events:
        assert (await _until(events, "log"))["data"] == {"text": "last\n", "offset": 4, "next": 9}


async def test_silence_is_filled_so_that_the_connection_stays(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    async with _following(workload, token) as events:
        await _until(events, "")  # retry
        await _until(events, "")  # still here


async def test_a_cluster_that_does_not_answer_ends_nothing(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.trouble = Unavailable("the agent is away")
    async with _following(workload, token) as events:
        await _until(events, "")
        await _end(workload)
        await _until(events, "")  # still here, although the run has ended: its last words are not read yet
        output.text, output.trouble = "last words\n", None
        assert (await _until(events, "log"))["data"]["text"] == "last words\n"
        await _until(events, "end")


async def test_a_run_without_output_ends_too(output: Output) -> None:
    _world, workload, token = await sync_to_async(_setting)()
    output.trouble = NotFound("never started")
    async with _following(workload, token) as events:
        await _end(workload, Phase.FAILED)
        assert (await _until(events, "end"))["data"]["phase"] == "failed"


@pytest.mark.parametrize("lost", ["token", "person", "membership"])
async def test_who_may_no_longer_see_it_reads_no_further(output: Output, lost: str) -> None:
    world, workload, _token = await sync_to_async(_setting)()
    token = await sync_to_async(token_for)(world.colleague)
    async with _following(workload, token) as events:
        await _until(events, "")
        if lost == "token":
            await ApiToken.objects.all().adelete()
        elif lost == "person":
            await User.objects.filter(username="colleague").aupdate(is_active=False)
        else:
            await world.lab.memberships.filter(user=world.colleague.user).adelete()
        output.text = "a secret"
        await sync_to_async(bells.ring)(f"workload:{workload.id}")
        assert (await _until(events, "end"))["data"] == {"phase": None, "reason": "not_found"}


async def test_the_outsider_gets_no_stream(output: Output) -> None:
    world, workload, _token = await sync_to_async(_setting)()
    token = await sync_to_async(token_for)(world.outsider)
    response: Any = await AsyncClient().get(
        f"/api/v1/experiments/{workload.id}/logs",
        headers={"Authorization": f"Bearer {token}", "Accept": "text/event-stream"},
    )
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"


async def test_a_reader_holds_no_database_connection_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of ten would else end with ten readers. SQLite has none, and its threads keep theirs on purpose."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    await sync_to_async(connections.close_all)()
    world, workload, _token = await sync_to_async(_setting)()
    assert await following.Reading(world.member, None).look(workload.id) == workload
    assert await sync_to_async(lambda: connection.connection)() is None


@pytest.mark.parametrize("text", ["", "1", "1:", ":5", "1:-5", "a:b", "1:٥", "1:5:6"])
def test_a_made_up_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        Position.parse(text)


async def test_leaving_closes_the_listener(output: Output, bell_dir: Path, settings: Settings) -> None:
    settings.BELL_REDIS_URL = ""  # sockets can be counted
    _world, workload, token = await sync_to_async(_setting)()
    async with _following(workload, token) as events:
        await _until(events, "")
        await _until(events, "")
        assert _listeners(bell_dir)
    await asyncio.wait_for(_nobody_listens(bell_dir), PATIENCE)


async def _nobody_listens(bell_dir: Path) -> None:
    while _listeners(bell_dir):  # noqa: ASYNC110 - a file tells nobody that it is gone
        await asyncio.sleep(0.01)


def _listeners(bell_dir: Path) -> list[Path]:
    return list(bell_dir.glob("*.sock"))
