"""How many requests are worked on at the same time.

Django gives each request under ASGI a thread of its own, however many there are: a burst of 200 would be 200 threads that fight for the
interpreter and for connections to the database, and all of them would be late. Here they wait for a place, first come first served.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Places:
    """An ASGI application before another. A place is kept until the answer begins, so that streams, which may last for hours, keep none.

    Each place has a thread that stays: all that is synchronous in a request runs there.
    """

    def __init__(self, application: Application, places: int) -> None:
        self._application = application
        self._places = asyncio.Semaphore(places)
        self._free = [
            ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"place-{number}") for number in range(places)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        await self._places.acquire()
        place = self._free.pop()  # the one that was used last: it is warm
        held = True

        def give() -> None:
            nonlocal held
            if held:
                held = False
                self._free.append(place)
                self._places.release()

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                give()
            await send(message)

        try:
            async with ThreadSensitiveContext(executor=place):
                await self._application(scope, receive, sending)
        finally:
            give()
