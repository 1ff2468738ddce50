"""The controller's way from its event loop to the database: one thread that owns one connection."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections

Result = TypeVar("Result")


class DatabaseThread:
    """`await database(function, *args)` runs `function` in the thread. A broken connection is dropped; the next call makes a new one."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def __call__(self, function: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, _guarded, function, *args)

    async def close(self) -> None:
        await self(connections.close_all)
        self._executor.shutdown(wait=True)


def keep_short() -> None:
    """Our SQLite backend leaves it to the controller to keep its log short; others need no such thing."""
    checkpoint: Callable[[], None] | None = getattr(connection, "checkpoint", None)
    if checkpoint is not None:
        checkpoint()


def _guarded(function: Callable[..., Result], *args: Any) -> Result:
    try:
        return function(*args)
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise
