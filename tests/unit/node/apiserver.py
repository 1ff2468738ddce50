"""An API server in the process: kmock's, with what the agent needs of a real one and kmock leaves out.

Added: server-side apply makes what is missing, every change has a resource version, listings have one, a watch begins with what
happened after the version that it names, and errors that a test scripts by number carry a `Status` object as a real server's do.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attrs
import kmock
from aiohttp import web

RESOURCE = "resource.k8s.io/v1"
SLICES = kmock.resource(f"{RESOURCE}/resourceslices")
CLAIMS = kmock.resource(f"{RESOURCE}/resourceclaims")
NODES = kmock.resource("v1/nodes")
NODE = "node-1"
NODE_UID = "11111111-2222-3333-4444-555555555555"

Json = dict[str, Any]


@dataclass
class Journal:
    """What happened to the objects of one resource, in the place of kmock's bus, which forgets."""

    server: ApiServer
    events: list[Json] = field(default_factory=list)
    more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def put(self, event: Json) -> None:
        event = _copy(event)
        if event["type"] == "DELETED":
            self.server._stamp(event["object"])
        async with self.more:
            self.events.append(event)
            self.more.notify_all()

    async def after(self, version: int) -> AsyncIterator[Json]:
        seen = 0
        while True:
            for event in self.events[seen:]:
                seen += 1
                if int(event["object"]["metadata"]["resourceVersion"]) > version:
                    yield event
            async with self.more:
                await self.more.wait_for(lambda: len(self.events) > seen)  # noqa: B023


@dataclass
class Slow:
    """Until `over`; `asked` once somebody waits."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@attrs.define(kw_only=True)
class ApiServer(kmock.KubernetesEmulator):
    """Holds a node, and whatever a test puts in."""

    version: int = 100
    slow: Slow | None = None  # claims are asked for and not answered

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._buses: Any = defaultdict(lambda: Journal(self))
        for resource in (SLICES, CLAIMS, NODES):
            self.resources[resource] = {}  # type: ignore[assignment]
        self.put(NODES, None, {"metadata": {"name": NODE, "uid": NODE_UID}})

    def put(self, resource: kmock.resource, namespace: str | None, found: Json) -> None:  # type: ignore[override]
        self._stamp(found)
        self.objects[resource, namespace, found["metadata"]["name"]] = found

    def get_slice(self, name: str = f"{NODE}-gpu.tessera.dev") -> Json | None:
        found = self._present((SLICES, None, name))
        return None if found is None or found.deleted else _copy(found.raw)

    async def remove(self, resource: kmock.resource, name: str) -> None:
        found = self.objects[resource, None, name]
        gone = found.raw
        found.delete()
        await self._buses[resource].put({"type": "DELETED", "object": gone})

    async def change(self, resource: kmock.resource, name: str, patch: Json) -> None:
        """Somebody else writes."""
        found = self.objects[resource, None, name]
        self.version += 1
        found.patch(patch | {"metadata": {"resourceVersion": str(self.version)}})
        await self._buses[resource].put({"type": "MODIFIED", "object": found.raw})

    def asked(self, action: str, resource: kmock.resource) -> list[kmock.Request]:
        return [r for r in self._requests if r.resource == resource and r.action == kmock.action(action)]

    async def _handle(self, request: kmock.Request) -> web.StreamResponse:
        if request.method == kmock.method.PATCH and request.resource is not None and isinstance(request.data, dict):
            assert request.headers["Content-Type"] == "application/apply-patch+yaml"
            assert request.params.get("fieldManager")
            self._stamp(request.data)
            key = (request.resource, request.namespace, request.name)
            present = self._present(key)
            if present is None or present.deleted:
                if present is None:
                    self.objects[key] = request.data  # type: ignore[index]
                else:
                    present.create(request.data)
                await self._buses[request.resource].put({"type": "ADDED", "object": request.data})
        if self.slow and request.resource == CLAIMS:
            self.slow.asked.set()
            await self.slow.over.wait()
        response = await super()._handle(request)
        if isinstance(response, web.Response) and response.status >= 400 and not response.body:
            status = {"kind": "Status", "code": response.status, "message": f"scripted {response.status}"}
            return web.json_response(status, status=response.status)
        return response

    async def _serve_list(self, request: kmock.Request) -> Any:
        found: Any = await super()._serve_list(request)
        return found | {"metadata": {"resourceVersion": str(self.version)}}

    async def _serve_watch(self, request: kmock.Request) -> AsyncIterator[Any]:
        yield b""
        async for event in self._buses[request.resource].after(int(request.params["resourceVersion"])):
            yield event

    def _present(self, key: Any) -> kmock.Object | None:
        return self.objects[key] if key in self.objects else None  # noqa: SIM401 - it has no `get`

    def _stamp(self, found: Json) -> None:
        self.version += 1
        found.setdefault("metadata", {})["resourceVersion"] = str(self.version)


def _copy(found: Any) -> Json:
    copied: Json = json.loads(json.dumps(found))
    return copied


@asynccontextmanager
async def running_api_server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server, kmock.Server(server):
        yield server


def kubeconfig(server: ApiServer, folder: Path) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": str(server.url).rstrip("/")}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


def resource_claim(
    uid: str,
    *,
    name: str = "claim",
    namespace: str = "tenant",
    results: list[Json] | None = None,
    parameters: Json | None = None,
    limits: str | None = None,
) -> Json:
    """An allocated claim as the scheduler leaves it: 8Gi and 300 per mille of gpu-0, unless `results` says otherwise."""
    configs = []
    if parameters is not None:
        opaque = {"driver": "gpu.tessera.dev", "parameters": parameters}
        configs = [{"source": "FromClaim", "requests": ["gpu"], "opaque": opaque}]
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "annotations": {} if limits is None else {"tessera.dev/limits": limits},
        },
        "status": {"allocation": {"devices": {"results": results or [result()], "config": configs}}},
    }


def result(device: str = "gpu-0", *, request: str = "gpu", share: str = "share-1", **consumed: str) -> Json:
    capacity = consumed or {"memory": "8Gi", "compute": "300"}
    return {
        "driver": "gpu.tessera.dev",
        "pool": NODE,
        "device": device,
        "request": request,
        "shareID": share,
        "consumedCapacity": capacity,
    }


def share_config(**parameters: Any) -> Json:
    return {"apiVersion": "tessera.dev/v1", "kind": "ShareConfig", **parameters}
