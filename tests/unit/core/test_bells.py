"""Bells over real sockets, between tasks and between processes."""

# ruff: noqa: ASYNC220, ASYNC240 - a test may look at its folder and wait for its child

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from apps.core import bells, bells_unix

BOUND = 20  # seconds until a wait is given up


@pytest.fixture(autouse=True)
def without_redis(settings: Any) -> None:
    settings.BELL_REDIS_URL = ""


ALL = frozenset({"*"})


@asynccontextmanager
async def listener() -> AsyncIterator[AsyncGenerator[frozenset[str], None]]:
    """Bound and past its first "*"."""
    heard = cast("AsyncGenerator[frozenset[str], None]", bells.listen())
    assert await anext(heard) == ALL
    try:
        yield heard
    finally:
        await heard.aclose()


async def next_of(heard: AsyncIterator[frozenset[str]]) -> frozenset[str]:
    async with asyncio.timeout(BOUND):
        return await anext(heard)


async def test_every_listener_hears_and_rings_are_gathered(bell_dir: Path) -> None:
    async with listener() as one, listener() as two:
        bells_unix.send(bell_dir, frozenset({"workload:1"}))
        bells_unix.send(bell_dir, frozenset({"cluster", "user:2"}))
        assert await next_of(one) == {"workload:1", "cluster", "user:2"}
        assert await next_of(two) == {"workload:1", "cluster", "user:2"}


async def test_nobody_waits_where_nobody_listens(bell_dir: Path) -> None:
    bells_unix.send(bell_dir, frozenset({"cluster"}))
    async with listener():
        pass
    bells_unix.send(bell_dir, frozenset({"cluster"}))
    assert list(bell_dir.iterdir()) == []


async def test_a_flood_loses_single_bells_and_says_that_everything_may_have_changed(bell_dir: Path) -> None:
    async with listener() as heard:
        for number in range(1000):
            bells_unix.send(bell_dir, frozenset({f"workload:{number}"}))
        assert "*" in await next_of(heard)
        bells_unix.send(bell_dir, frozenset({"cluster"}))
        assert await next_of(heard) == {"cluster"}


async def test_what_cannot_be_read_means_everything(bell_dir: Path) -> None:
    async with listener() as heard:
        (address,) = bell_dir.glob("*.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"\xff\xfe", str(address))
        assert await next_of(heard) == ALL


async def test_a_very_long_ring_means_everything(bell_dir: Path) -> None:
    async with listener() as heard:
        bells_unix.send(bell_dir, frozenset(f"workload:{number}" for number in range(1000)))
        assert await next_of(heard) == ALL


async def test_folders_with_long_names_work(settings: Any, tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 30)
    settings.BELL_DIR = folder
    async with listener() as heard:
        bells_unix.send(folder, frozenset({"cluster"}))
        assert await next_of(heard) == {"cluster"}


LISTEN = """
import asyncio, sys
from pathlib import Path
from apps.core import bells_unix
async def main():
    async for topics in bells_unix.listen(Path(sys.argv[1])):
        print(" ".join(sorted(topics)), flush=True)
asyncio.run(main())
"""


async def test_a_killed_listener_leaves_nothing_that_disturbs(bell_dir: Path) -> None:
    program = [sys.executable, "-c", LISTEN, str(bell_dir)]
    child = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "*\n"
    bells_unix.send(bell_dir, frozenset({"cluster"}))
    assert child.stdout.readline() == "cluster\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait(BOUND)
    async with listener() as heard:
        bells_unix.send(bell_dir, frozenset({"samples"}))
        assert await next_of(heard) == {"samples"}
        assert len(list(bell_dir.glob("*.sock"))) == 1


@pytest.mark.django_db(transaction=True)
async def test_a_ring_inside_a_transaction_is_heard_after_its_commit_only(bell_dir: Path) -> None:
    def commit() -> None:
        with transaction.atomic():
            bells.ring("user:1")
            bells.ring("user:2")

    def roll_back() -> None:
        with transaction.atomic():
            bells.ring("user:3")
            transaction.set_rollback(True)

    async with listener() as heard:
        await sync_to_async(roll_back)()
        await sync_to_async(commit)()
        assert await next_of(heard) | {"user:1"} == {"user:1", "user:2"}
