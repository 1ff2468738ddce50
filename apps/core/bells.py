"""Bells: "something about this topic changed, read the rows again". A bell carries no data, so a lost one loses nothing.

Topics: `workload:<id>`, `user:<id>`, `tenant:<id>`, `cluster`, `samples`, `controller`, `controller:<workload id>`; `*` is
"everything may have changed". On one machine bells are datagrams to the sockets of all listeners in one folder; with
TESSERA_REDIS_URL they are messages of a Redis channel.
"""

from collections.abc import AsyncIterator
from functools import partial

from django.conf import settings
from django.db import transaction

from apps.core import bells_redis, bells_unix

ALL = "*"


def ring(*topics: str) -> None:
    """Tell all listeners once the current transaction is committed; at once where there is none. Never fails, never waits."""
    if topics:
        transaction.on_commit(partial(_send, frozenset(topics)), robust=True)


def ring_now(*topics: str) -> None:
    """For programs that have no transaction open, event loops among them: `ring` looks at the database connection."""
    _send(frozenset(topics))


def _send(topics: frozenset[str]) -> None:
    if settings.BELL_REDIS_URL:
        bells_redis.send(settings.BELL_REDIS_URL, topics)
    else:
        bells_unix.send(settings.BELL_DIR, topics)


async def listen() -> AsyncIterator[frozenset[str]]:
    """The topics that rang since the last read, again and again. The first set is {"*"}: from then on no bell is missed."""
    source = (
        bells_redis.listen(settings.BELL_REDIS_URL) if settings.BELL_REDIS_URL else bells_unix.listen(settings.BELL_DIR)
    )
    try:
        async for topics in source:
            yield topics
    finally:
        await source.aclose()
