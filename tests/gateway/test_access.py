"""Who gets in, who does not, and how access ends."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import aiohttp
from asgiref.sync import sync_to_async
from django.conf import settings

from apps.audit.models import Event
from apps.core import clock
from apps.gateway.exchange import Answer, Question
from apps.gateway.models import Activity
from apps.tenants.models import Membership
from apps.workloads.models import Workload
from tests.gateway.conftest import BOUND, Gateway, Scene, session_of, ticket_url, wait_until
from tests.gateway.upstream import Upstream

PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
Servers = dict[str, Upstream]


async def status(browser: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with browser.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def status_becomes(wanted: int, browser: aiohttp.ClientSession, url: str) -> None:
    """A yes is remembered for two seconds; then it must be another."""
    async with asyncio.timeout(BOUND):
        while await status(browser, url) != wanted:  # noqa: ASYNC110 - it happens in nginx
            await asyncio.sleep(0.1)


def cookie_of(browser: aiohttp.ClientSession) -> str:
    (cookie,) = list(browser.cookie_jar)
    return f"{cookie.key}={cookie.value}"


async def test_a_ticket_opens_the_page_that_was_asked_for(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    url = await ticket_url(scene.lin, scene.mine, scene.lin_session, "/lab/tree/welcome.ipynb?reset")
    async with browser.get(url, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/lab/tree/welcome.ipynb?reset"
        cookie = answer.headers["Set-Cookie"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Domain" not in cookie
    assert await status(browser, f"{gateway.origin(scene.mine)}/lab") == 200


async def test_a_ticket_works_once(gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession) -> None:
    url = await ticket_url(scene.lin, scene.mine, scene.lin_session)
    fresh = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=browser.connector, connector_owner=False, cookie_jar=fresh) as thief:
        answers = await asyncio.gather(*(status(thief, url, **PAGE) for _ in range(8)))
    assert sorted(answers) == [303, *[403] * 7]


async def test_a_used_ticket_leads_on_in_a_browser_that_is_already_in(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    url = await ticket_url(scene.lin, scene.mine, scene.lin_session)
    assert [await status(browser, url), await status(browser, url)] == [303, 303]


async def test_an_old_ticket_is_refused_in_words(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    then = clock.now() - timedelta(seconds=61)
    with clock.installed(lambda: then):
        url = await ticket_url(scene.lin, scene.mine, scene.lin_session)
    async with browser.get(url, headers={**PAGE, "Accept-Language": "zh-CN"}) as answer:
        assert answer.status == 403
        assert 'lang="zh-hans"' in await answer.text()
    assert not list(browser.cookie_jar)


async def test_a_ticket_of_another_host_or_a_forged_one_is_refused(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    foreign = await ticket_url(scene.tom, scene.other, scene.tom_session)
    moved = foreign.replace(scene.other.slug, scene.mine.slug)
    assert await status(browser, moved) == 403
    assert await status(browser, f"{gateway.origin(scene.mine)}/_tessera/enter?ticket=eyJ9:forged") == 403
    assert await status(browser, f"{gateway.origin(scene.mine)}/_tessera/enter") == 403
    assert await status(browser, foreign) == 303  # it was not spent by the attempt


async def test_without_a_pass_a_person_is_sent_to_the_portal_and_a_program_is_told(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession, servers: Servers
) -> None:
    url = f"{gateway.origin(scene.mine)}/lab/tree/a%20b"
    async with browser.get(url, headers=PAGE, allow_redirects=False) as answer:
        assert answer.status == 303
        assert (
            answer.headers["Location"] == f"{settings.PORTAL_URL}/open/{scene.mine.slug}/?next=%2Flab%2Ftree%2Fa%2520b"
        )
    async with browser.get(url) as answer:
        assert answer.status == 401
        assert answer.content_type == "application/problem+json"
        assert (await answer.json(content_type=None))["code"] == "sign_in"
    assert not servers[scene.mine.uid].seen


async def test_a_stranger_cannot_tell_a_host_that_exists_from_one_that_does_not(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    async def seen(slug: str, **headers: str) -> tuple[int, str, bytes]:
        url = f"http://{slug}.localhost:{gateway.port}/lab"
        async with browser.get(url, headers=headers, allow_redirects=False) as answer:
            place = answer.headers.get("Location", "").replace(slug, "X")
            return answer.status, place, (await answer.read()).replace(slug.encode(), b"X")

    assert await seen(scene.other.slug) == await seen("nobody-was-here")
    assert await seen(scene.other.slug, **PAGE) == await seen("nobody-was-here", **PAGE)


async def test_the_cookie_of_one_host_is_worth_nothing_on_another(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    url = f"{gateway.origin(scene.other)}/lab"
    assert await status(inside, f"{gateway.origin(scene.mine)}/lab") == 200
    assert await status(inside, url, Cookie=cookie_of(inside)) == 401
    assert not servers[scene.other.uid].seen


async def test_a_cookie_planted_by_a_neighbour_does_not_lock_anybody_out(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    own = cookie_of(inside)
    inside.cookie_jar.clear()
    planted = f"tessera_pass=planted; a=1; {own}"
    assert await status(inside, f"{gateway.origin(scene.mine)}/lab", Cookie=planted) == 200
    assert servers[scene.mine.uid].seen[-1][1]["Cookie"] == "a=1"


async def test_logging_out_ends_requests_within_seconds_and_open_websockets_soon(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    url = f"{gateway.origin(scene.mine)}/api"
    async with inside.ws_connect(f"{gateway.origin(scene.mine)}/ws") as socket:
        await socket.send_str("still here")
        assert await socket.receive_str(timeout=BOUND) == "still here"
        await sync_to_async(scene.lin_session.delete)()
        await status_becomes(401, inside, url)
        assert (await socket.receive(timeout=BOUND)).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)


async def test_a_lost_role_ends_access_with_a_reason(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    url = f"{gateway.origin(scene.mine)}/api"
    async with inside.ws_connect(f"{gateway.origin(scene.mine)}/ws") as socket:
        await sync_to_async(Membership.objects.filter(user=scene.lin).delete)()
        await status_becomes(403, inside, url)
        assert (await socket.receive(timeout=BOUND)).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)


async def test_an_open_websocket_of_somebody_else_lives_on_when_one_is_cut(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, servers: Servers
) -> None:
    async with inside.get(await ticket_url(scene.tom, scene.other, scene.tom_session), allow_redirects=False):
        pass
    async with (
        inside.ws_connect(f"{gateway.origin(scene.mine)}/ws") as mine,
        inside.ws_connect(f"{gateway.origin(scene.other)}/ws") as toms,
    ):
        await sync_to_async(scene.lin_session.delete)()
        assert (await mine.receive(timeout=BOUND)).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)
        await toms.send_str("untouched")
        assert await toms.receive_str(timeout=BOUND) == "untouched"


async def test_a_disabled_account_and_a_changed_password_end_access(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    url = f"{gateway.origin(scene.mine)}/api"
    assert await status(inside, url) == 200
    scene.lin.set_password("another long password")
    await sync_to_async(scene.lin.save)()
    await status_becomes(401, inside, url)
    again = await sync_to_async(session_of)(scene.lin)
    async with inside.get(await ticket_url(scene.lin, scene.mine, again), allow_redirects=False):
        pass
    assert await status(inside, url) == 200
    scene.lin.is_active = False
    await sync_to_async(scene.lin.save)()
    await status_becomes(401, inside, url)


async def test_a_refusal_is_not_remembered(gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession) -> None:
    url = f"{gateway.origin(scene.mine)}/api"
    await sync_to_async(Workload.objects.filter(id=scene.mine.id).update)(phase="starting")
    assert await status(inside, url) == 503
    await sync_to_async(Workload.objects.filter(id=scene.mine.id).update)(phase="ready")
    assert await status(inside, url) == 200


async def test_an_operator_who_enters_somebody_elses_session_is_in_the_audit_trail(
    gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession
) -> None:
    session = await sync_to_async(session_of)(scene.operator)
    async with browser.get(await ticket_url(scene.operator, scene.mine, session), allow_redirects=False) as answer:
        assert answer.status == 303
    assert await status(browser, f"{gateway.origin(scene.mine)}/lab") == 200
    event = await Event.objects.aget(verb="workload.enter")
    assert (event.actor_id, event.target_id) == (str(scene.operator.id), scene.mine.uid)


async def test_use_is_stamped_and_an_open_websocket_alone_is_no_use(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    app: Any = gateway.authoriser.config.app
    idle_questions: list[str] = []
    authorise = app._routes["/authorise"]

    async def watched(question: Question) -> Answer:
        if question.header("x-tessera-idle"):
            idle_questions.append(question.slug)
        answer: Answer = await authorise(question)
        return answer

    async def stamp() -> datetime | None:
        await app._stamps.flush()
        row = await Activity.objects.filter(workload=scene.mine).afirst()
        return row.last_request_at if row else None

    app._routes["/authorise"] = watched
    async with inside.ws_connect(f"{gateway.origin(scene.mine)}/ws") as socket:
        first = await stamp()
        assert first is not None
        async with asyncio.timeout(BOUND):
            while await stamp() == first:
                await socket.send_str("typed")
                await socket.receive_str()
            idle_questions.clear()
            await wait_until(lambda: len(idle_questions) >= 2)
            quiet = await stamp()
            await wait_until(lambda: len(idle_questions) >= 4)
        assert await stamp() == quiet
