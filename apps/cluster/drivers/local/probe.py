"""Whether a run answers: one request, sent before it can, that waits in its socket's queue for the first turn of its loop."""

import asyncio

import aiohttp

_AGAIN = (0.1, 0.2, 0.5, 1.0)  # s after a failed answer; the last one from then on
_NO_LIMIT = aiohttp.ClientTimeout(total=None)


async def answered(port: int, path: str, token: str) -> None:
    """Return when GET `path` is answered with a status below 500. Ends otherwise only by being cancelled."""
    tries = 0
    while not await _answers(port, path, token):
        # Only after a refusal, a reset or a 5xx: a server that is simply not there yet keeps the first request waiting.
        await asyncio.sleep(_AGAIN[min(tries, len(_AGAIN) - 1)])
        tries += 1


async def _answers(port: int, path: str, token: str) -> bool:
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=_NO_LIMIT, headers=headers) as session,
            session.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False) as response,
        ):
            return response.status < 500
    except (aiohttp.ClientError, OSError):
        return False
