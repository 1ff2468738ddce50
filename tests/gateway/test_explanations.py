"""What the gateway says to those whom it cannot let in, and that a waiting page opens by itself."""

import asyncio
import base64
import hashlib
import re

import aiohttp
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from apps.cluster.specs import Endpoint
from apps.core import bells
from apps.workloads.models import Workload
from tests.gateway import dialler
from tests.gateway.conftest import BOUND, Gateway, Scene, start_authoriser
from tests.gateway.test_access import PAGE


async def page(browser: aiohttp.ClientSession, url: str, language: str = "en-GB") -> tuple[int, str, str]:
    """Status, text and policy."""
    async with browser.get(url, headers={**PAGE, "Accept-Language": language}, allow_redirects=False) as answer:
        return answer.status, await answer.text(), answer.headers.get("Content-Security-Policy", "")


async def page_with(wanted: int, browser: aiohttp.ClientSession, url: str) -> tuple[str, str]:
    """A yes is remembered for two seconds; then it must be another. Text and policy of the page with the status `wanted`."""
    async with asyncio.timeout(BOUND):
        while True:
            status, text, policy = await page(browser, url)
            if status == wanted:
                return text, policy
            await asyncio.sleep(0.1)


async def change(workload: Workload, **fields: object) -> None:
    await sync_to_async(Workload.objects.filter(id=workload.id).update)(**fields)


def hashes_hold(text: str, policy: str) -> bool:
    """Whether every style and script inside is one that the policy allows: otherwise a browser would drop it."""
    inside = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, re.DOTALL)
    return bool(inside) and all(
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy for part in inside
    )


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"phase": "starting", "reason": "starting_server"}, 503, "is starting"),
        ({"phase": "queued", "reason": "waiting_turn"}, 503, "is starting"),
        ({"phase": "stopped", "reason": "time_limit"}, 503, "is not running"),
        ({"phase": "failed", "reason": "start_failed"}, 503, "is not running"),
        ({"phase": "stopped", "deleted_at": timezone.now()}, 410, "was deleted"),
    ],
)
async def test_every_state_has_its_page(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession, fields: dict[str, object], status: int, words: str
) -> None:
    await change(scene.mine, **fields)
    seen, text, policy = await page(inside, f"{gateway.origin(scene.mine)}/lab")
    assert seen == status
    assert words in text
    assert scene.mine.name in text
    assert hashes_hold(text, policy)


async def test_a_workload_whose_server_is_away_is_unreachable_not_gone(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    dialler.endpoints[scene.mine.uid] = Endpoint("127.0.0.1", 1)  # nothing listens there
    text, _policy = await page_with(502, inside, f"{gateway.origin(scene.mine)}/lab")
    assert "does not answer just now" in text
    assert scene.mine.name in text


async def test_without_the_authoriser_nobody_gets_in_and_the_page_says_so_in_two_languages(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    gateway.authoriser.should_exit = True
    text, policy = await page_with(502, inside, f"{gateway.origin(scene.mine)}/lab")
    assert "Tessera is restarting" in text
    assert hashes_hold(text, policy)
    assert 'lang="zh-hans"' in (await page(inside, f"{gateway.origin(scene.mine)}/lab", "zh-CN,zh;q=0.9"))[1]
    server, serving = await start_authoriser(gateway.folder)
    assert (await page(inside, f"{gateway.origin(scene.mine)}/lab"))[0] == 200
    server.should_exit = True
    await serving


async def test_a_waiting_page_hears_of_a_change_at_once(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    await change(scene.mine, phase="starting", version=7)
    origin = gateway.origin(scene.mine)
    assert 'data-version="7"' in (await page(inside, f"{origin}/lab"))[1]
    async with inside.get(f"{origin}/_tessera/wait?since=6") as answer:
        assert answer.status == 204  # it changed before the page asked
    waiting = asyncio.create_task(inside.get(f"{origin}/_tessera/wait?since=7"))
    done, _pending = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    await change(scene.mine, phase="ready", version=8)
    await sync_to_async(bells.ring)(f"workload:{scene.mine.id}")
    assert (await asyncio.wait_for(waiting, BOUND)).status == 204
    assert (await page(inside, f"{origin}/lab"))[0] == 200


async def test_an_upload_that_is_refused_is_not_read_first(
    gateway: Gateway, scene: Scene, inside: aiohttp.ClientSession
) -> None:
    """The answer comes although the body never ends."""
    await change(scene.mine, phase="stopped")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(
        f"POST /upload HTTP/1.1\r\nHost: {scene.mine.slug}.localhost\r\nContent-Length: 1000000000\r\n\r\nabc".encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), BOUND)
    assert head.startswith(b"HTTP/1.1 401")
    writer.close()
