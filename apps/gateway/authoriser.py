"""The program that nginx asks: who may go where (`/authorise`), what to say to the others (`/explain`), tickets for
cookies (`/enter`), and news for a page that waits (`/wait`). Bare ASGI on a Unix socket that only nginx can open, so
the headers of its requests are nginx's words.

It carries no traffic of workloads, and holds nothing that a restart would lose.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope
from channels.db import database_sync_to_async
from django.utils import translation

from apps.cluster.services import reader
from apps.core.errors import NotFound, Unavailable
from apps.gateway import addresses, cookies, pages, services, verdicts
from apps.gateway.activity import Stamps
from apps.gateway.exchange import Answer, Question, send_answer
from apps.gateway.news import News
from apps.gateway.verdicts import Kind, Verdict

PORT_NAME = "http"
PATIENCE = 50.0  # seconds that a waiting page is held; below what proxies between here and the browser usually allow
_log = logging.getLogger(__name__)


class Authoriser:
    """One per process; start it by ASGI's lifespan."""

    def __init__(self) -> None:
        self._stamps = Stamps()
        self._news = News()
        self._tasks: list[asyncio.Task[None]] = []
        self._routes: dict[str, Callable[[Question], Awaitable[Answer]]] = {
            "/authorise": self._authorise,
            "/explain": self._explain,
            "/enter": self._enter,
            "/wait": self._wait,
        }

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await send_answer(send, await self._answer(scope))

    async def _answer(self, scope: HTTPScope) -> Answer:
        route = self._routes.get(scope["path"])
        if route is None:
            return Answer(404)
        try:
            return await route(Question.of(scope))
        except Exception:
            _log.exception("no answer to %s", scope["path"])
            return Answer(500)

    async def _authorise(self, question: Question) -> Answer:
        """204 with the target and the headers for it, or the status that says why not."""
        own, others = cookies.split(question.header("cookie"), cookies.name())
        verdict = await self._judge(question, own)
        if verdict.kind is not Kind.ALLOWED or verdict.workload is None:
            return Answer(verdict.status)
        try:
            endpoint = await reader().dial(verdict.workload.uid, PORT_NAME)
        except (NotFound, Unavailable) as problem:
            _log.warning("%s is ready and has no address: %s", verdict.workload.uid, problem)
            return Answer(verdicts.STATUS[Kind.UNREACHABLE])
        if verdict.user is not None and not question.header("x-tessera-idle"):
            self._stamps.note(verdict.workload.id)
        headers = [("X-Tessera-Target", f"{endpoint.host}:{endpoint.port}")]
        if others:
            headers.append(("X-Tessera-Cookie", others))
        headers += [("X-Tessera-Header", f"{name}: {value}") for name, value in endpoint.headers.items()]
        return Answer(204, headers)

    async def _judge(self, question: Question, own: tuple[str, ...]) -> Verdict:
        proof = question.header("x-tessera-probe")
        if proof:
            return await database_sync_to_async(verdicts.judge_probe)(question.slug, proof)
        return await database_sync_to_async(verdicts.judge)(question.slug, own)

    async def _explain(self, question: Question) -> Answer:
        own, _others = cookies.split(question.header("cookie"), cookies.name())
        verdict = await self._judge(question, own)
        address = question.header("x-tessera-address")
        unreachable = question.argument("cause") == "unreachable"
        if question.wants_page:
            if verdict.kind is Kind.SIGN_IN:
                return Answer.redirect(addresses.sign_in(question.slug, address))
            if verdict.kind is Kind.ALLOWED and not unreachable:  # it became ready between the two questions
                return Answer.redirect(addresses.origin(question.slug) + address)
        return await database_sync_to_async(_explanation)(question, verdict, unreachable)

    async def _enter(self, question: Question) -> Answer:
        entry = await database_sync_to_async(services.redeem_ticket)(
            slug=question.slug, ticket=question.argument("ticket")
        )
        if entry is not None:
            return Answer.redirect(entry.page, ("Set-Cookie", cookies.setting(entry.secret)))
        own, _others = cookies.split(question.header("cookie"), cookies.name())
        verdict = await database_sync_to_async(verdicts.judge)(question.slug, own)
        if verdict.kind is not Kind.SIGN_IN:  # "back" to a used ticket, in a browser that is already in
            return Answer.redirect(addresses.DEFAULT_PAGE)
        with translation.override(question.language()):
            return _page(pages.spent_ticket(question.slug), status=403)

    async def _wait(self, question: Question) -> Answer:
        """Answered when a workload that starts is no longer as the page showed it."""
        own, _others = cookies.split(question.header("cookie"), cookies.name())
        seen = question.argument("since")
        verdict = await database_sync_to_async(verdicts.judge)(question.slug, own)
        if verdict.kind is not Kind.STARTING or verdict.workload is None:
            return Answer(204)
        with self._news.about(verdict.workload.id) as rang:
            # Read again: it may have changed before the bell was being listened to.
            verdict = await database_sync_to_async(verdicts.judge)(question.slug, own)
            if verdict.kind is Kind.STARTING and verdict.workload is not None and str(verdict.workload.version) == seen:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await rang.wait()
        return Answer(204)

    async def _live(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()
        self._tasks = [asyncio.create_task(self._stamps.run()), asyncio.create_task(self._news.run())]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in self._tasks:
            task.cancel()
        await self._stamps.flush()
        await send({"type": "lifespan.shutdown.complete"})


def _explanation(question: Question, verdict: Verdict, unreachable: bool) -> Answer:
    preferred = verdict.user.language if verdict.user else ""
    with translation.override(question.language(preferred)):
        said = pages.words(verdict, unreachable=unreachable)
        kind = Kind.UNREACHABLE if verdict.kind is Kind.ALLOWED else verdict.kind
        status = verdicts.STATUS[kind]
        if question.wants_page:
            return _page(said, status=status, version=verdict.workload.version if verdict.workload else 0)
        return Answer(
            status, [("Content-Type", "application/problem+json")], pages.problem(said, status=status, code=kind)
        )


def _page(said: pages.Words, *, status: int, version: int = 0) -> Answer:
    headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", pages.POLICY)]
    return Answer(status, headers, pages.html(said, version=version).encode())
