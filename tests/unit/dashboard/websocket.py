"""A websocket against the ASGI application, without a server. (channels.testing asks for daphne, which nothing else here needs.)"""

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

WAIT = 10  # seconds after which a test gives up; nothing is expected to take as long


class WebSocket(ApplicationCommunicator):
    def __init__(self, application: Any, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        address, _mark, query = path.partition("?")
        scope = {
            "type": "websocket", "path": address, "query_string": query.encode(), "headers": headers, "subprotocols": [],
        }  # fmt: skip
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Whether it was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return bool((await self.output())["type"] == "websocket.accept")

    async def output(self) -> dict[str, Any]:
        event: dict[str, Any] = await self.receive_output(WAIT)
        return event

    async def send_json(self, content: Any) -> None:
        await self.send_input({"type": "websocket.receive", "text": json.dumps(content)})

    async def receive_json(self) -> dict[str, Any]:
        event = await self.output()
        assert event["type"] == "websocket.send", event
        message: dict[str, Any] = json.loads(event["text"])
        return message

    async def close_code(self) -> int:
        """The code with which the server closes; what it sends before is confirmed and dropped."""
        while True:
            event = await self.output()
            if event["type"] == "websocket.close":
                return int(event["code"])
            message = json.loads(event["text"])
            if "n" in message:
                await self.send_json({"ack": message["n"]})

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(WAIT)
