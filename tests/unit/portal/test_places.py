"""Places for requests: how many are worked on, in which order, and that nothing keeps one for ever."""

import asyncio
from typing import Any

import pytest

from portal.places import Places


class Inner:
    """An application whose requests go on when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.answer: dict[str, asyncio.Event] = {}
        self.end: dict[str, asyncio.Event] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.begun.append(path)
        await self.answer.setdefault(path, asyncio.Event()).wait()
        if path.startswith("/broken"):
            raise RuntimeError("broken")
        await send({"type": "http.response.start"})
        await self.end.setdefault(path, asyncio.Event()).wait()
        await send({"type": "http.response.body"})


async def nothing(*_: Any) -> Any:
    return {}


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def places(inner: Inner) -> Places:
    return Places(inner, 2)


def ask(places: Places, path: str, kind: str = "http") -> "asyncio.Task[None]":
    return asyncio.ensure_future(places({"type": kind, "path": path}, nothing, nothing))


async def test_the_third_waits_until_an_answer_begins_and_order_is_kept(places: Places, inner: Inner) -> None:
    tasks = [ask(places, path) for path in ("/a", "/b", "/c", "/d")]
    await settled()
    assert inner.begun == ["/a", "/b"]
    inner.answer["/b"].set()  # it streams from now on
    await settled()
    assert inner.begun == ["/a", "/b", "/c"]
    inner.end["/b"].set()
    await settled()
    assert inner.begun == ["/a", "/b", "/c"], "a place is given once"
    for path in ("/a", "/c"):
        inner.answer[path].set()
    await settled()
    assert inner.begun[-1] == "/d"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("how", ["raises", "is cancelled", "is cancelled while it waits"])
async def test_a_place_comes_back(places: Places, inner: Inner, how: str) -> None:
    first = [ask(places, "/broken1"), ask(places, "/broken2")]
    await settled()
    third = ask(places, "/c")
    await settled()
    if how == "is cancelled while it waits":
        third.cancel()
        third = ask(places, "/c")
    for path, task in zip(("/broken1", "/broken2"), first, strict=True):
        if how == "raises":
            inner.answer[path].set()
        else:
            task.cancel()
    await asyncio.gather(*first, return_exceptions=True)
    await settled()
    assert inner.begun[-1] == "/c"
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)


async def test_websockets_take_no_place(places: Places, inner: Inner) -> None:
    tasks = [ask(places, f"/{number}", "websocket") for number in range(5)]
    await settled()
    assert len(inner.begun) == 5
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
