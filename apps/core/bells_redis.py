"""Bells between machines: one Redis channel per installation. Used when TESSERA_REDIS_URL is set; needs the extra `redis`."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from redis.asyncio.client import PubSub

LOOK_SECONDS = 10.0  # how often an idle connection is tried
LONGEST_PAUSE = 5.0  # seconds before connecting again
_ALL = frozenset({"*"})
_log = logging.getLogger(__name__)


def channel() -> str:
    """Installations that share a Redis do not hear each other: the name comes from the secret that all parts of one share."""
    return f"tessera:bells:{sha256(f'bells:{settings.SECRET_KEY}'.encode()).hexdigest()[:16]}"


@lru_cache(maxsize=4)
def _client(url: str) -> Any:
    import redis  # an optional extra

    return redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)


def send(url: str, topics: frozenset[str]) -> None:
    import redis

    try:
        _client(url).publish(channel(), " ".join(sorted(topics)))
    except redis.RedisError as error:
        _log.warning("a bell was lost, Redis does not answer: %s", type(error).__name__)


async def listen(url: str) -> AsyncGenerator[frozenset[str]]:
    import redis.asyncio
    import redis.exceptions

    pause = 0.1
    while True:
        client = redis.asyncio.Redis.from_url(url, health_check_interval=LOOK_SECONDS)
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(channel())
                while await _gather(subscription) is not None:
                    continue  # until the server says that it has subscribed us
                yield _ALL  # also after a lost connection: whatever rang meanwhile is unknown
                pause = 0.1
                while True:
                    topics = await _gather(subscription)
                    if topics:
                        yield topics
        except (redis.exceptions.RedisError, OSError) as error:
            _log.warning("bells: Redis does not answer (%s); trying again in %.1f s", type(error).__name__, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await client.aclose()


async def _gather(subscription: "PubSub") -> frozenset[str] | None:
    """Waits for a message and takes all that are there. None where the server confirmed the subscription instead."""
    topics: frozenset[str] = frozenset()
    message = await subscription.get_message(timeout=LOOK_SECONDS)
    while message is not None:
        if message["type"] == "subscribe":
            return None
        if message["type"] == "message":
            topics |= frozenset(message["data"].decode().split()) or _ALL
        message = await subscription.get_message(timeout=0)
    return topics
