"""An agent that starts while another works on the same state, as in a rolling update: it waits for its turn, ready to take over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from vcuda.node.options import Options
from vcuda.node.server import serve_http
from vcuda.node.state import holder, try_state

_LOOK: Final = 0.05  # s; a lock of a file cannot be awaited
log = logging.getLogger(__name__)


async def await_state(options: Options, status: Callable[[], dict[str, Any]], stopping: asyncio.Event) -> int | None:
    """The state's lock; None when this agent is to stop before its turn has come. `status` is what `healthz` says meanwhile."""
    lock = try_state(options.state)
    if lock is not None:
        return lock
    runner = await serve_http(_application(status), options.listen.open()) if options.listen else None
    log.info("Process %s works in %s; this agent takes over when that ends.", holder(options.state), options.state)
    try:
        while (lock := try_state(options.state)) is None and not stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await stopping.wait()
        return lock
    finally:
        if runner:
            await runner.cleanup()


def _application(status: Callable[[], dict[str, Any]]) -> web.Application:
    """For probes. In a rolling update the other agent is stopped when this one is ready: when kubelet knows it."""

    async def health(_: web.Request) -> web.StreamResponse:
        said = status()
        return web.json_response({"status": "waiting", "kubernetes": said}, status=200 if said["registered"] else 503)

    app = web.Application()
    app.router.add_get("/healthz", health)
    return app
