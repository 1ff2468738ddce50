"""Bells over a real Redis."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from apps.core import bells, bells_redis

BOUND = 20  # seconds until a wait is given up
ALL = frozenset({"*"})


def serve(socket: Path) -> "subprocess.Popen[bytes]":
    """A server that answers."""
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(socket.parent)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    for line in server.stdout:
        if b"ready to accept connections" in line.lower():
            return server
    raise AssertionError("redis-server ended")


@pytest.fixture
def redis(settings: Any, tmp_path: Path) -> Iterator[Path]:
    socket = tmp_path / "redis.sock"
    server = serve(socket)
    settings.BELL_REDIS_URL = f"unix://{socket}"
    yield socket
    server.kill()
    server.wait(BOUND)
    bells_redis._client.cache_clear()


def listener() -> AsyncGenerator[frozenset[str], None]:
    return cast("AsyncGenerator[frozenset[str], None]", bells.listen())


async def ring(*topics: str) -> None:
    await asyncio.to_thread(bells.ring_now, *topics)


async def test_every_listener_hears_from_its_first_answer_on(redis: Path) -> None:
    async with asyncio.timeout(BOUND), aclosing(listener()) as one, aclosing(listener()) as two:
        assert await anext(one) == await anext(two) == ALL
        await ring("workload:1", "cluster")
        assert await anext(one) == await anext(two) == {"workload:1", "cluster"}


async def test_another_installation_on_the_same_redis_is_not_heard(redis: Path, settings: Any) -> None:
    async with asyncio.timeout(BOUND), aclosing(listener()) as heard:
        assert await anext(heard) == ALL
        ours = settings.SECRET_KEY
        settings.SECRET_KEY = "another installation's"
        await ring("workload:theirs")
        settings.SECRET_KEY = ours
        await ring("workload:ours")
        assert await anext(heard) == {"workload:ours"}


async def test_when_redis_is_gone_nothing_fails_and_its_return_means_everything(
    redis: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bells_redis, "LONGEST_PAUSE", 0.1)
    async with asyncio.timeout(BOUND), aclosing(listener()) as heard:
        assert await anext(heard) == ALL
        shut_down = asyncio.create_subprocess_exec("redis-cli", "-s", str(redis), "shutdown", "nosave")
        await (await shut_down).wait()
        await ring("workload:lost")
        next_one = asyncio.ensure_future(anext(heard))
        again = await asyncio.to_thread(serve, redis)
        try:
            assert await next_one == ALL
            await ring("workload:2")
            assert await anext(heard) == {"workload:2"}
        finally:
            again.kill()
            again.wait(BOUND)
