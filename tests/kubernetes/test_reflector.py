"""The reflector before a server that does everything wrong: what it knows is always what is there, or it says that it does not know."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kmock import Server

from apps.cluster.drivers.kubernetes.api import Api, Connection
from apps.cluster.drivers.kubernetes.kinds import PODS, Resource
from apps.cluster.drivers.kubernetes.reflector import LONGEST_PAUSE, Reflector
from apps.cluster.drivers.kubernetes.settings import Timing
from tests.kubernetes.server import ApiServer, Manifest

BOUND = 20.0  # s after which a test gives up


class Seen:
    """A reflector with its pauses and its clock in the test's hands."""

    def __init__(self, server: ApiServer, api: Api, resource: Resource = PODS, **options: Any) -> None:
        self.server, self.changes, self.pauses, self.now = server, list[tuple[str, str]](), list[float](), 0.0
        self.held: asyncio.Event | None = None  # where set, pauses last until it is
        timing = options.pop("timing", Timing(silence=5.0))
        self.reflector = Reflector(
            *(api, resource, self._changed),
            **{"timing": timing, "clock": lambda: self.now, "sleep": self._sleep, "spread": lambda _, high: high}
            | options,
        )
        self._moved = asyncio.Event()

    def _changed(self, before: Manifest | None, after: Manifest | None) -> None:
        name = (after or before or {})["metadata"]["name"]
        self.changes.append((name, "gone" if after is None else "new" if before is None else "changed"))
        self._moved.set()

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._moved.set()
        await (self.held.wait() if self.held else asyncio.sleep(0))

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(BOUND):
            while not condition():
                self._moved.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 0.02)

    async def agrees(self) -> None:
        """Until the copy is what the server has."""
        await self.until(lambda: self.names() == sorted(name for _, name in self.server.shelf("pods").things))

    def names(self) -> list[str]:
        return sorted(name for _, name in self.reflector.objects)

    def lists(self) -> int:
        return self.reflector.counters.lists


def pod(name: str, **meta: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "n", **meta}, "spec": {}}


def asked_lists(server: ApiServer) -> list[dict[str, str]]:
    """With which parameters."""
    return [dict(r.params) for r in server._requests if "/pods" in r.url.path and "watch" not in r.params]


@asynccontextmanager
async def running(seen: Seen) -> AsyncIterator[None]:
    task = asyncio.create_task(seen.reflector.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made, Server(made, host="127.0.0.1"):
        made.put("pods", pod("a"))
        yield made


def url(server: ApiServer) -> str:
    return str(server.servers[0].url).rstrip("/")


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(Connection(host=url(server)), timeout=5.0) as made:
        yield made


@pytest.fixture
async def seen(server: ApiServer, api: Api) -> AsyncIterator[Seen]:
    made = Seen(server, api)
    async with running(made):
        await made.until(lambda: made.reflector.staleness == 0.0 and made.reflector.synced.is_set())
        made.now += 100.0  # the watch has been open for a while
        yield made


async def test_it_knows_what_is_there_and_tells_each_change_in_order(server: ApiServer, seen: Seen) -> None:
    server.put("pods", pod("b"))
    server.patch("pods", "b", {"spec": {"x": 1}})
    server.drop("pods", "a")
    await seen.agrees()
    assert seen.changes == [("a", "new"), ("b", "new"), ("b", "changed"), ("a", "gone")]
    assert seen.reflector.fresh
    assert (seen.lists(), seen.pauses) == (1, [])


async def test_a_watch_that_ends_in_order_goes_on_where_it_was(server: ApiServer, seen: Seen) -> None:
    server.put("pods", pod("b"))
    await seen.agrees()
    for name in ("c", "d"):
        await server.end_watches("pods")
        server.put("pods", pod(name))
        await seen.agrees()
    assert seen.lists() == 1
    assert seen.changes.count(("a", "new")) == 1


async def test_bookmarks_carry_it_past_what_was_compacted(server: ApiServer, seen: Seen) -> None:
    server.put("secrets", {"metadata": {"name": "s"}})
    await server.bookmark("pods")
    await seen.until(lambda: seen.reflector.counters.events == 1)
    server.forget("pods")
    server.put("pods", pod("b"))
    await server.end_watches("pods")
    await seen.agrees()
    assert seen.lists() == 1


@pytest.mark.parametrize("status", [410, 504, 403, 404])
async def test_after_a_refused_watch_everything_is_listed_anew(server: ApiServer, seen: Seen, status: int) -> None:
    server.fail(status, "pods", watch=True)
    server.drop("pods", "a")
    server.put("pods", pod("b"))
    await server.end_watches("pods")
    await seen.until(lambda: seen.lists() == 2)
    await seen.agrees()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_asked_again_from_the_same_place(server: ApiServer, seen: Seen, status: int) -> None:
    server.fail(status, "pods", watch=True, times=2)
    await server.end_watches("pods")
    server.put("pods", pod("b"))
    await seen.agrees()
    assert seen.lists() == 1
    assert seen.pauses == [0.1, 0.2]


async def test_a_watch_told_that_its_history_is_gone_lists_anew(server: ApiServer, seen: Seen) -> None:
    await server.end_watches("pods")
    server.drop("pods", "a")
    server.forget("pods")
    await seen.until(lambda: seen.lists() == 2)
    await seen.agrees()
    assert seen.changes[-1] == ("a", "gone")


async def test_a_stream_cut_within_an_event_is_a_doubt(server: ApiServer, seen: Seen) -> None:
    server.shelf("pods").cut = True
    server.put("pods", pod("b"))
    await seen.until(lambda: seen.lists() == 2)
    await seen.agrees()
    assert seen.reflector.counters.doubts == 1


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'{"type": "NEW"}\n', b'{"type": "ADDED", "object": {"metadata": {}}}\n', b"[]\n"]
)
async def test_so_is_an_event_that_cannot_be_read(server: ApiServer, api: Api, line: bytes) -> None:
    seen = Seen(server, api)
    told = iter([line])
    server["get", lambda request: request.params.get("watch") == "true"] << (lambda: (next(told),))
    async with running(seen):
        await seen.until(lambda: seen.lists() == 2)
        await seen.agrees()


async def test_a_half_open_connection_is_noticed_and_nothing_is_missed(server: ApiServer, api: Api) -> None:
    seen = Seen(server, api, timing=Timing(silence=0.1, stale=0.0))
    async with running(seen):
        await seen.until(lambda: seen.names() == ["a"])
        server.shelf("pods").silent = True
        server.put("pods", pod("b"))
        await seen.until(lambda: seen.reflector.counters.failures)
        server.shelf("pods").silent = False
        await seen.agrees()
    assert seen.lists() == 1


async def test_pauses_grow_to_half_a_minute_and_shrink_after_success(server: ApiServer, seen: Seen) -> None:
    server.fail(500, "pods", watch=True, times=12)
    await server.end_watches("pods")
    await seen.until(lambda: len(seen.pauses) == 12)
    assert seen.pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(seen.pauses) == LONGEST_PAUSE
    server.put("pods", pod("b"))
    await seen.agrees()
    seen.now += 100.0
    server.fail(500, "pods", watch=True)
    await server.end_watches("pods")
    await seen.until(lambda: len(seen.pauses) == 13)
    assert seen.pauses[-1] == 0.1


async def test_a_server_that_names_a_time_is_given_it(server: ApiServer, seen: Seen) -> None:
    told = iter([1])

    def is_first_watch(request: Any) -> bool:
        return request.params.get("watch") == "true" and request.id >= first and next(told, None) is not None

    first = len(server._requests)
    server[is_first_watch] << 429 << {"Retry-After": "7"}
    await server.end_watches("pods")
    await seen.until(lambda: seen.pauses)
    assert seen.pauses[0] == 7.0


async def test_without_a_watch_what_it_knows_is_soon_no_longer_the_truth(server: ApiServer, seen: Seen) -> None:
    seen.held = asyncio.Event()
    server.away = True
    await server.end_watches("pods")
    await seen.until(lambda: seen.pauses)
    assert seen.reflector.fresh
    seen.now += 11.0
    assert not seen.reflector.fresh
    assert seen.names() == ["a"]
    assert seen.reflector.problem
    server.away = False
    server.put("pods", pod("b"))
    seen.held.set()
    await seen.agrees()
    await seen.until(lambda: seen.reflector.fresh)


async def test_what_was_just_listed_is_the_truth_however_long_the_list_took(server: ApiServer, api: Api) -> None:
    seen = Seen(server, api, timing=Timing(stale=1.0, silence=5.0))
    seen.now = 100.0
    server["get", lambda request: request.params.get("watch") == "true"] << (lambda: asyncio.Event().wait())
    async with running(seen):
        await seen.until(lambda: seen.reflector.synced.is_set())
        assert seen.reflector.fresh
        seen.now += 1.1
        assert not seen.reflector.fresh


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(server: ApiServer, api: Api) -> None:
    seen = Seen(server, api)
    server["get", lambda request: request.params.get("watch") == "true"] << (b"",)
    async with running(seen):
        await seen.until(lambda: len(seen.pauses) >= 3)
    assert seen.pauses[:3] == [0.1, 0.2, 0.4]


async def test_a_list_is_never_older_than_what_was_written(server: ApiServer, seen: Seen) -> None:
    made = server.put("pods", pod("b"))
    seen.reflector.absorb({**made, "metadata": {**made["metadata"], "resourceVersion": "900"}})
    assert ("b", "new") in seen.changes
    seen.reflector.absorb(made)  # older than what is known
    assert seen.reflector.objects["n", "b"]["metadata"]["resourceVersion"] == "900"
    server.fail(410, "pods", watch=True)
    await server.end_watches("pods")
    await seen.until(lambda: len(asked_lists(server)) == 2)
    asked = asked_lists(server)
    assert (asked[-1]["resourceVersion"], asked[-1]["resourceVersionMatch"]) == ("900", "NotOlderThan")


async def test_news_older_than_what_is_known_are_no_news(server: ApiServer, seen: Seen) -> None:
    later = pod("b", resourceVersion="900", uid="1")
    seen.reflector.absorb(later)
    server.put("pods", pod("b"))
    server.drop("pods", "b")
    server.put("pods", pod("c"))
    await seen.until(lambda: "c" in seen.names())
    assert seen.reflector.objects["n", "b"] == later


async def test_a_server_that_does_not_know_that_version_is_asked_for_what_it_has(server: ApiServer, seen: Seen) -> None:
    server.fail(410, "pods", watch=True)
    server.fail(504, "pods", watch=False)  # "Too large resource version"
    server.drop("pods", "a")
    await server.end_watches("pods")
    await seen.until(lambda: seen.lists() == 3)
    await seen.agrees()
    assert "resourceVersion" not in asked_lists(server)[-1]


async def test_the_first_list_comes_from_the_servers_cache_or_from_its_store(server: ApiServer, api: Api) -> None:
    for consistent, version in ((False, "0"), (True, None)):
        seen = Seen(server, api, consistent=consistent)
        async with running(seen):
            await seen.until(lambda seen=seen: seen.names() == ["a"])  # type: ignore[misc]
        assert asked_lists(server)[-1].get("resourceVersion") == version


async def test_a_kind_that_the_server_does_not_know_is_empty_and_asked_for_seldom(server: ApiServer, api: Api) -> None:
    seen = Seen(server, api, Resource("none.example", "v1", "nothings", "Nothing"))
    seen.held = asyncio.Event()
    async with running(seen):
        await seen.until(lambda: seen.pauses)
        assert seen.reflector.synced.is_set()
        assert not seen.reflector.served
        assert seen.reflector.fresh
    assert seen.pauses == [LONGEST_PAUSE]


async def test_a_rotated_token_is_taken_up_without_a_gap(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    server.token = "first"
    async with Api(Connection(host=url(server), token_file=str(tmp_path / "token")), timeout=5.0) as api:
        seen = Seen(server, api)
        async with running(seen):
            await seen.until(lambda: seen.names() == ["a"])
            server.token = "second"
            (tmp_path / "token").write_text("second")
            await server.end_watches("pods")
            server.put("pods", pod("b"))
            await seen.agrees()
    assert (seen.lists(), seen.pauses) == (1, [])


async def test_a_token_that_expired_before_its_file_changed_is_asked_for_until_it_has(
    server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("first")
    server.token = "first"
    async with Api(Connection(host=url(server), token_file=str(tmp_path / "token")), timeout=5.0) as api:
        seen = Seen(server, api)
        async with running(seen):
            await seen.until(lambda: seen.names() == ["a"])
            server.token = "second"
            await server.end_watches("pods")
            await seen.until(lambda: len(seen.pauses) >= 2)
            (tmp_path / "token").write_text("second")
            server.put("pods", pod("b"))
            await seen.agrees()


async def test_a_list_that_never_comes_is_given_up_and_asked_for_again(server: ApiServer) -> None:
    server[lambda request: request.id == 0] << (lambda: asyncio.Event().wait())
    async with Api(Connection(host=url(server)), timeout=0.1) as api:
        seen = Seen(server, api)
        async with running(seen):
            await seen.agrees()
    assert seen.pauses == [0.1]


async def test_what_is_not_kept_is_as_if_it_were_not_there(server: ApiServer, api: Api) -> None:
    seen = Seen(server, api, keep=lambda thing: None if thing["metadata"].get("labels") else thing)
    async with running(seen):
        await seen.until(lambda: seen.names() == ["a"])
        server.patch("pods", "a", {"metadata": {"labels": {"hidden": "yes"}}})
        await seen.until(lambda: seen.names() == [])
    assert seen.changes[-1] == ("a", "gone")
