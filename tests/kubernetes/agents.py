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
from vcuda.node.claims import Claim
from vcuda.node.dra.allocation import read_allocation
from vcuda.node.nvml import CardFacts

NODE = "node-1"
PORT = 9400
TOKEN = "a-token-of-the-agents"


class Agent:
    def __init__(self, server: ApiServer, address: str, name: str = "tessera-node-agent-1") -> None:
        self.server, self.name, self.address = server, name, address
        self.every = 0.05  # s between lines
        self.in_force: dict[str, Claim] = {}  # claims that were read again
        self._runner: web.AppRunner | None = None
        self._ending = asyncio.Event()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/samples", self._samples)
        app.router.add_post("/claims/{uid}/refresh", self._refresh)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, PORT).start()
        token = base64.b64encode(TOKEN.encode()).decode()
        secret = {"name": "tessera-node-agent-token", "namespace": names.AGENT_NAMESPACE}
        self.server.put("secrets", {"metadata": secret, "data": {"token": token}})
        key, _, value = names.AGENT_LABEL.partition("=")
        meta = {"name": self.name, "namespace": names.AGENT_NAMESPACE, "labels": {key: value}}
        self.server.put(
            "pods",
            {"metadata": meta, "spec": {"nodeName": NODE}, "status": {"phase": "Running", "podIP": self.address}},
        )

    async def stop(self) -> None:
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _refresh(self, request: web.Request) -> web.StreamResponse:
        """By the real agent's own reading of claims."""
        _check(request)
        uid = request.match_info["uid"]
        (claim,) = [claim for claim in self.server.all("resourceclaims") if claim["metadata"]["uid"] == uid]
        cards = [_facts(device) for slice_ in self.server.all("resourceslices") for device in slice_["spec"]["devices"]]
        self.in_force[uid] = read_allocation(claim, uid=uid, pool=NODE, cards=cards, account=(0, 0)).claim
        devices = [
            {"uuid": part.uuid, "memory": part.memory, "compute": part.compute, "ceiling": part.ceiling}
            for part in self.in_force[uid].parts
        ]
        return web.json_response({"name": uid, "devices": devices})

    async def _samples(self, request: web.Request) -> web.StreamResponse:
        _check(request)
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
                known = self.in_force.get(claim["metadata"]["uid"])
                limit = known.parts[0].memory if known else result["consumedCapacity"]["memory"]
                found.append(_sample(f"run:{claim['metadata']['uid']}:{card}", limit))
        return found


def _check(request: web.Request) -> None:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        raise web.HTTPUnauthorized


def _facts(device: Manifest) -> CardFacts:
    told = device["attributes"]
    return CardFacts(
        uuid=told["uuid"]["string"],
        index=told["index"]["int"],
        model=told["model"]["string"],
        physical_memory=quantities.whole(device["capacity"]["memory"]["value"]),
        reserved_memory=0,
        attributes={},
    )


def _sample(subject: str, memory: Any) -> Manifest:
    return {
        "subject": subject,
        "at": datetime.now(UTC).isoformat(),
        "memory_limit": memory if isinstance(memory, int) else quantities.whole(memory),
    }
