"""A person's browser reduced to what it sends to JupyterLab, with the header that the gateway adds."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from apps.cluster.specs import Endpoint


class Browser:
    def __init__(self, session: aiohttp.ClientSession, base: URL) -> None:
        self.session, self.base = session, base

    async def page(self) -> str:
        """JupyterLab's page; its cookie then proves that later requests come from it."""
        async with self.session.get(self.base / "lab") as response:
            assert response.status == 200
            return await response.text()

    async def post(self, path: str, body: object = None) -> Any:
        cookie = self.session.cookie_jar.filter_cookies(self.base)["_xsrf"].value
        async with self.session.post(self.base / path, json=body, headers={"X-XSRFToken": cookie}) as response:
            assert response.status in (200, 201), await response.text()
            return await response.json()

    @asynccontextmanager
    async def kernel(self) -> AsyncIterator["Kernel"]:
        made = await self.post("api/kernels", {"name": "python3"})
        async with self.session.ws_connect(self.base / "api/kernels" / made["id"] / "channels") as socket:
            yield Kernel(socket)


class Kernel:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def run(self, code: str) -> str:
        """What the code prints."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": "test", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        request = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        await self._socket.send_json(request)
        printed = ""
        async for message in self._messages():
            if message["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                printed += content["text"]
            elif message["msg_type"] == "error":
                raise AssertionError("\n".join(content["traceback"]))
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed
        raise AssertionError("the connection to the kernel was closed")

    async def until_status(self, *states: str) -> str:
        async for message in self._messages():
            if message["msg_type"] == "status" and message["content"]["execution_state"] in states:
                found: str = message["content"]["execution_state"]
                return found
        raise AssertionError("the connection to the kernel was closed")

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        async for message in self._socket:
            yield json.loads(message.data)


@asynccontextmanager
async def browser(endpoint: Endpoint) -> AsyncIterator[Browser]:
    jar = aiohttp.CookieJar(unsafe=True)  # the address is a number
    async with aiohttp.ClientSession(headers=dict(endpoint.headers), cookie_jar=jar) as session:
        yield Browser(session, URL(f"http://{endpoint.host}:{endpoint.port}"))
