"""The queue of keys and the visits, with a loop and nothing else."""

# ruff: noqa: ASYNC110 - other turns of the loop are what is waited for

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from apps.workloads import reach, visits
from apps.workloads.visits import Visits
from apps.workloads.workqueue import WorkQueue

BOUND = 20  # seconds until a wait is given up


@asynccontextmanager
async def running(queue: WorkQueue[str]) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(BOUND):
            yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def idle(queue: WorkQueue[str]) -> None:
    while not queue.idle:
        await asyncio.sleep(0)


async def test_a_key_is_worked_on_by_one_task_at_a_time_and_rings_meanwhile_are_one_more_round() -> None:
    rounds, at_once = 0, 0
    go = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal rounds, at_once
        at_once += 1
        assert at_once == 1
        await go.wait()
        rounds += 1
        at_once -= 1

    queue = WorkQueue(work)
    async with running(queue):
        for _ in range(5):
            queue.add("a")
            await asyncio.sleep(0)
        go.set()
        await idle(queue)
    assert rounds == 2


async def test_different_keys_are_worked_on_together_up_to_the_limit() -> None:
    at_once, most = 0, 0

    async def work(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    queue = WorkQueue(work, at_once=3)
    async with running(queue):
        for number in range(10):
            queue.add(str(number))
        await idle(queue)
    assert most == 3


async def test_a_failed_key_comes_again_and_others_are_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.workloads.workqueue.FIRST_PAUSE", 0.001)
    tries: dict[str, int] = {}

    async def work(key: str) -> None:
        tries[key] = tries.get(key, 0) + 1
        if key == "bad" and tries[key] < 4:
            raise RuntimeError("not yet")

    queue = WorkQueue(work)
    async with running(queue):
        queue.add("bad")
        queue.add("good")
        while tries.get("bad") != 4:
            await asyncio.sleep(0.001)
        await idle(queue)
    assert tries == {"bad": 4, "good": 1}


async def test_what_was_missing_being_back_cuts_the_pauses_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.workloads.workqueue.FIRST_PAUSE", 3600.0)
    monkeypatch.setattr("apps.workloads.workqueue.LONGEST_PAUSE", 3600.0)
    broken, done = True, asyncio.Event()

    async def work(key: str) -> None:
        if broken:
            raise RuntimeError("no")
        done.set()

    queue = WorkQueue(work)
    async with running(queue):
        queue.add("a")
        while not queue.pausing:
            await asyncio.sleep(0)
        broken = False
        queue.retry_now()
        await done.wait()


async def test_something_fatal_ends_the_queue_and_leaves_no_task() -> None:
    async def work(key: str) -> None:
        if key == "slow":
            await asyncio.Event().wait()
        raise PermissionError("lost")

    queue = WorkQueue(work, fatal=(PermissionError,))
    async with running(queue) as task:
        queue.add("slow")
        await asyncio.sleep(0)
        queue.add("fatal")
        with pytest.raises(PermissionError):
            await task
    assert queue.idle


async def test_visits_are_repeated_with_pauses_and_cut_short_by_the_bell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(visits, "LONGEST_PAUSE", 3600.0)
    one, closed, events = UUID(int=1), True, asyncio.Queue[str]()

    async def check(slug: str) -> None:
        if closed:
            raise ConnectionError("closed")

    async def reached(workload_id: UUID, run: int) -> None:
        events.put_nowait(f"reached {run}")

    async def unreached(workload_id: UUID, run: int, problem: str) -> None:
        events.put_nowait(problem)

    before = reach.register(check)
    try:
        tried = Visits(reached, unreached, again=lambda workload_id: tried.begin(workload_id, "slug", 1))
        tried.begin(one, "slug", 1)
        async with asyncio.timeout(BOUND):
            assert await events.get() == "closed"
            tried.begin(one, "slug", 1)  # in its pause it is not disturbed
            await asyncio.sleep(0)
            assert events.empty()
            closed = False
            tried.try_now()
            assert await events.get() == "reached 1"
        await tried.close()
    finally:
        reach.register(before)
