"""The node agent's listener as the portal sees it: figures of all cards and claims, line by line, for whoever has the token."""

import asyncio
import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from apps.cluster.drivers.kubernetes import names, quantities
from tests.kubernetes.server import ApiServer, Manifest

PORT = 9400
TOKEN = "a-token-of-the-agents"


class Agent:
    def __init__(self, server: ApiServer, address: str, name: str = "tessera-node-agent-1") -> None:
        self.server, self.name, self.address = server, name, address
        self.every = 0.05  # s between lines
        self._runner: web.AppRunner | None = None
        self._ending = asyncio.Event()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/samples", self._samples)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, PORT).start()
        token = base64.b64encode(TOKEN.encode()).decode()
        secret = {"name": "tessera-node-agent-token", "namespace": names.AGENT_NAMESPACE}
        self.server.put("secrets", {"metadata": secret, "data": {"token": token}})
        key, _, value = names.AGENT_LABEL.partition("=")
        meta = {"name": self.name, "namespace": names.AGENT_NAMESPACE, "labels": {key: value}}
        self.server.put("pods", {"metadata": meta, "status": {"phase": "Running", "podIP": self.address}})

    async def stop(self) -> None:
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _samples(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while not self._ending.is_set():
                await response.write(json.dumps(self._batch()).encode() + b"\n")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), self.every)
        return response

    def _batch(self) -> list[Manifest]:
        cards = {d["name"]: d for s in self.server.all("resourceslices") for d in s["spec"]["devices"]}
        found = [
            _sample(f"card:{card['attributes']['uuid']['string']}", card["capacity"]["memory"]["value"])
            for card in cards.values()
        ]
        for claim in self.server.all("resourceclaims"):
            devices = claim.get("status", {}).get("allocation", {}).get("devices", {})
            for result in devices.get("results", ()):
                card = cards[result["device"]]["attributes"]["uuid"]["string"]
                found.append(_sample(f"run:{claim['metadata']['uid']}:{card}", result["consumedCapacity"]["memory"]))
        return found


def _sample(subject: str, memory: Any) -> Manifest:
    return {"subject": subject, "at": datetime.now(UTC).isoformat(), "memory_limit": quantities.whole(memory)}
