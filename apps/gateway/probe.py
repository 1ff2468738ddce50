"""The visit that makes "ready" true: HTTP and a websocket through the gateway, as a browser would come.

One request that waits; whoever calls decides when to try again. Registered with `workloads.reach` by this app.
"""

import asyncio

import aiohttp
from django.conf import settings
from django.core import signing

from apps.core import clock
from apps.core.errors import Unavailable

_signer = signing.Signer(salt="tessera.gateway.probe")
_LIFE = 60  # seconds
_PATIENCE = 60  # seconds for the whole visit; a server under load answers late
_STATUS_PAGE = "/api/status"
_WEBSOCKET = "/api/events/subscribe"


def proof(slug: str) -> str:
    return _signer.sign_object({"slug": slug, "at": clock.now().timestamp()})


def is_genuine(slug: str, given: str) -> bool:
    try:
        content = _signer.unsign_object(given)
    except signing.BadSignature:
        return False
    return bool(content["slug"] == slug and abs(clock.now().timestamp() - content["at"]) < _LIFE)


async def _page(session: aiohttp.ClientSession) -> None:
    async with session.get(_STATUS_PAGE, allow_redirects=False) as answer:
        if answer.status != 200:
            raise Unavailable(f"{_STATUS_PAGE} was answered with {answer.status}")


async def _websocket(session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(_WEBSOCKET):
        return


async def visit(slug: str) -> None:
    """Returns once both were answered. Raises Unavailable with the problem in a few words."""
    base = f"http://127.0.0.1:{settings.GATEWAY_PORT}"
    headers = {"Host": f"{slug}.{settings.GATEWAY_DOMAIN}", "X-Tessera-Probe": proof(slug)}
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with aiohttp.ClientSession(base, headers=headers, timeout=timeout) as session:
            await asyncio.gather(_page(session), _websocket(session))
    except aiohttp.WSServerHandshakeError as problem:
        raise Unavailable(f"the websocket was answered with {problem.status}") from problem
    except (TimeoutError, aiohttp.ClientError, OSError) as problem:
        raise Unavailable(str(problem) or type(problem).__name__) from problem
