"""Bells between machines: one Redis channel. Used when TESSERA_REDIS_URL is set; needs the extra `redis`."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import Any

CHANNEL = "tessera:bells"
_ALL = frozenset({"*"})
_log = logging.getLogger(__name__)


@lru_cache(maxsize=4)
def _client(url: str) -> Any:
    import redis  # an optional extra

    return redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)


def send(url: str, topics: frozenset[str]) -> None:
    import redis

    try:
        _client(url).publish(CHANNEL, " ".join(sorted(topics)))
    except redis.RedisError as error:
        _log.warning("a bell was lost, Redis does not answer: %s", type(error).__name__)


async def listen(url: str) -> AsyncGenerator[frozenset[str]]:
    import redis.asyncio
    import redis.exceptions

    pause = 0.1  # seconds before connecting again, doubled up to 5
    while True:
        client = redis.asyncio.Redis.from_url(url, health_check_interval=15)
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                yield _ALL  # also after a lost connection: whatever rang meanwhile is unknown
                pause = 0.1
                async for message in channel.listen():
                    yield frozenset(message["data"].decode().split()) or _ALL
        except (redis.exceptions.RedisError, OSError) as error:
            _log.warning("bells: Redis does not answer (%s); trying again in %.1f s", type(error).__name__, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)
        finally:
            await client.aclose()
