"""HTTP: one handler per call of the contract in README.md. No state and no rules of its own.

Everything over a Unix socket of our account; over TCP only what reads, for whoever shows the token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CONTENT_TYPE_LATEST

from vcuda.node import describe, metrics
from vcuda.node.clock import Clock
from vcuda.node.errors import Invalid, NodeError, Unauthorised
from vcuda.node.node import Node
from vcuda.node.sampler import Sample

_LATE_NS: Final = 3_000_000_000  # without a tick: the agent's figures are old, it says so
_BODY: Final = 64 * 1024  # bytes of a request
_OPEN: Final = frozenset({"/healthz", "/metrics"})  # without a token: what probes and Prometheus ask for
log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SampleFeed:
    """The newest batch for any number of readers. A slow reader gets the newest one, not a backlog."""

    def __init__(self) -> None:
        self._batch: Sequence[Sample] = ()
        self._number = 0
        self._changed = asyncio.Condition()
        self._open = True

    async def publish(self, batch: Sequence[Sample]) -> None:
        async with self._changed:
            self._batch, self._number = batch, self._number + 1
            self._changed.notify_all()

    async def close(self) -> None:
        async with self._changed:
            self._open = False
            self._changed.notify_all()

    async def batches(self) -> AsyncIterator[Sequence[Sample]]:
        seen = 0
        while True:
            async with self._changed:
                while self._number == seen and self._open:
                    await self._changed.wait()
                if not self._open:
                    return
                seen, batch = self._number, self._batch
            yield batch


class Api:
    """`extra` adds to what `healthz` says; `refresh` reads a claim again where it comes from elsewhere."""

    def __init__(
        self,
        node: Node,
        clock: Clock,
        feed: SampleFeed,
        extra: Callable[[], dict[str, Any]] = lambda: {},
        refresh: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._node = node
        self._clock = clock
        self._feed = feed
        self._extra = extra
        self._refresh = refresh

    def application(self) -> web.Application:
        app = web.Application(client_max_size=_BODY, middlewares=[explain_refusals])
        app.router.add_put("/claims/{name}", self.put_claim)
        app.router.add_patch("/claims/{name}", self.change_claim)
        app.router.add_delete("/claims/{name}", self.delete_claim)
        self._add_reading(app)
        return app

    def reading(self, token: Path) -> web.Application:
        """What may be asked over the network: nothing that decides anything. `token` is a file, read each time since it may change."""
        app = web.Application(client_max_size=_BODY, middlewares=[explain_refusals, bearer_of(token)])
        self._add_reading(app)
        return app

    def _add_reading(self, app: web.Application) -> None:
        app.router.add_get("/claims/{name}", self.get_claim)
        app.router.add_post("/claims/{name}/refresh", self.refresh_claim)
        app.router.add_get("/claims", self.list_claims)
        app.router.add_get("/cards", self.cards)
        app.router.add_get("/samples", self.samples)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/healthz", self.health)

    async def put_claim(self, request: web.Request) -> web.StreamResponse:
        claim, made = self._node.put(request.match_info["name"], await _body(request))
        return web.json_response(self._node.answer(claim), status=201 if made else 200)

    async def change_claim(self, request: web.Request) -> web.StreamResponse:
        claim = self._node.change(request.match_info["name"], await _body(request))
        return web.json_response(describe.claim(self._node.get(claim.name)))

    async def get_claim(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(describe.claim(self._node.get(request.match_info["name"])))

    async def refresh_claim(self, request: web.Request) -> web.StreamResponse:
        """What was written where the claim comes from is obeyed now; the answer is what is in force."""
        name = request.match_info["name"]
        if self._refresh is not None:
            await self._refresh(name)
        return web.json_response(describe.claim(self._node.get(name)))

    async def delete_claim(self, request: web.Request) -> web.StreamResponse:
        self._node.delete(request.match_info["name"])
        return web.Response(status=204)

    async def list_claims(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"claims": [describe.claim(kept) for kept in self._node.claims.values()]})

    async def cards(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(describe.cards(self._node, datetime.now(UTC)))

    async def samples(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # the reader has gone
            async for batch in self._feed.batches():
                await response.write(json.dumps([sample.as_json() for sample in batch]).encode() + b"\n")
        return response

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=metrics.text(self._node), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(self, _: web.Request) -> web.StreamResponse:
        ticked = self._node.ticked_ns
        age = None if ticked is None else self._clock.now_ns() - ticked
        late = age is None or age > _LATE_NS
        body = {
            "status": "late" if late else "ok",
            "tick_age_ms": None if age is None else age // 1_000_000,
            "simulated": self._node.simulated,
            "cards": len(self._node.cards),
            "claims": len(self._node.claims),
            "unreadable_claims": sorted(self._node.unreadable),
            **self._extra(),
        }
        return web.json_response(body, status=503 if late else 200)


async def serve_http(application: web.Application, at: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=2)
    await runner.setup()
    await web.SockSite(runner, at).start()
    return runner


def bearer_of(token: Path) -> Middleware:
    """Lets through who shows what the file holds. Without a usable file nobody does."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN:
            return await handler(request)
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        wanted = _secret(token)
        if not wanted or scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), wanted):
            raise Unauthorised("This needs the agent's token.", hint="Send it as a bearer token.")
        return await handler(request)

    return check


def _secret(token: Path) -> bytes:
    try:
        return token.read_bytes().strip()
    except OSError as error:
        log.error("The token cannot be read: %s", error)
        return b""


@web.middleware
async def explain_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except NodeError as error:
        return web.json_response(error.as_json(), status=error.status)
    except web.HTTPException as error:
        plain = {
            "code": "http_error",
            "message": error.reason,
            "hint": "See vcuda/node/README.md for the calls.",
            "evidence": {},
        }
        return web.json_response(plain, status=error.status)
    except OSError as error:
        log.exception("%s %s failed.", request.method, request.path)
        failed = NodeError(f"The agent could not do this: {error}", code="agent_failed", hint="See the agent's log.")
        return web.json_response(failed.as_json(), status=500)


async def _body(request: web.Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        raise Invalid("The body is not JSON.") from None
