"""Many requests at once, from one event loop: to the portal as people, to the API server as its administrator."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp

from tests.product import Api

_PATIENCE: Final = aiohttp.ClientTimeout(total=120)


@dataclass(frozen=True, slots=True)
class Sent:
    """One POST: how long it took, and what came of it."""

    seconds: float
    status: int
    id: str
    told: str  # why it was refused


async def ask(
    people: Sequence[Api], asked: dict[str, Any], count: int, *, rate: float = 0.0, at_once: int = 32
) -> list[Sent]:
    """`count` experiments, people in turns: at `rate` a second whether or not answers come, else as fast as `at_once` in flight allow."""
    places = asyncio.Semaphore(count if rate else at_once)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session:

        async def one(number: int) -> Sent:
            api = people[number % len(people)]
            headers = {"Authorization": f"Bearer {api.secret}", "Idempotency-Key": uuid4().hex}
            async with places:
                began = time.monotonic()
                url, body = f"{api.product.url}/api/v1/experiments", {**asked, "name": f"Number {number}"}
                async with session.post(url, json=body, headers=headers) as answer:
                    told = await answer.json()
                    return Sent(
                        time.monotonic() - began, answer.status, str(told.get("id", "")), "" if answer.ok else str(told)
                    )

        began, tasks = time.monotonic(), []
        for number in range(count):
            if rate:
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(one(number)))
        return list(await asyncio.gather(*tasks))


def make(kubeconfig: Path, things: Sequence[Sequence[tuple[str, dict[str, Any]]]], *, at_once: int = 32) -> None:
    """Objects by their paths; those of one group one after the other, groups at the same time."""
    asyncio.run(_make(json.loads(kubeconfig.read_text()), things, at_once))


async def _make(content: dict[str, Any], things: Sequence[Sequence[tuple[str, dict[str, Any]]]], at_once: int) -> None:
    server = content["clusters"][0]["cluster"]["server"]
    places = asyncio.Semaphore(at_once)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=_tls(content)), timeout=_PATIENCE
    ) as session:

        async def one(group: Sequence[tuple[str, dict[str, Any]]]) -> None:
            async with places:
                for path, body in group:
                    async with session.post(server + path, json=body) as answer:
                        if answer.status >= 300 and answer.status != 409:
                            raise RuntimeError(f"{path}: {answer.status} {await answer.text()}")

        await asyncio.gather(*(one(group) for group in things))


def _tls(content: dict[str, Any]) -> ssl.SSLContext:
    authority = base64.b64decode(content["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    made = ssl.create_default_context(cadata=authority)
    user = content["users"][0]["user"]
    with tempfile.NamedTemporaryFile() as both:
        for name in ("client-certificate-data", "client-key-data"):
            both.write(base64.b64decode(user[name]))
        both.flush()
        made.load_cert_chain(both.name)
    return made
