"""Keeps the node's one ResourceSlice as it should be: published, republished when it disappears or differs, true about health.

kubelet deletes the slices of its node when it restarts and when the driver was away, so this never ends. Level-based: whatever
wakes it, it compares what should be there with what is.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from vcuda.node.dra.allocation import DRIVER
from vcuda.node.dra.devices import build_slice, essence, slice_name
from vcuda.node.dra.kubeapi import ApiError, Json, KubeApi
from vcuda.node.errors import Invalid

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
_LOOK: Final = 1.0  # s between two looks at the cards' health
_PAUSE: Final = 0.2  # s after a write, so that a quarrel with somebody else stays slow
_SHORTEST, _LONGEST = 0.2, 30.0  # s to wait after a failure
log = logging.getLogger(__name__)


class Publisher:
    """`devices` tells what the slice should say now."""

    def __init__(self, api: KubeApi, node: str, devices: Callable[[], Sequence[Json]]) -> None:
        self._api = api
        self._node = node
        self._devices = devices
        self._seen: dict[str, Json] = {}
        self._newest: dict[str, int] = {}  # resource version of the last news of each name, also that it is gone
        self._changed = asyncio.Event()
        self.published = False

    async def run(self) -> None:
        """Until it is cancelled."""
        delay = _SHORTEST
        while True:
            try:
                await self._follow()
                delay = _SHORTEST
            except ApiError as error:
                log.warning("The node's cards cannot be published: %s Next try within %.0f s.", error, delay)
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311
                delay = min(_LONGEST, 2 * delay)

    async def _follow(self) -> None:
        """One listing and one watch, until the watch ends."""
        owner = await self._owner()
        selector = {"fieldSelector": f"spec.nodeName={self._node},spec.driver={DRIVER}"}
        listed = await self._api.get(SLICES, **selector)
        self._seen = {item["metadata"]["name"]: item for item in listed.get("items") or []}
        self._newest = {name: _version(item) for name, item in self._seen.items()}
        version = str(listed["metadata"]["resourceVersion"])
        watching = asyncio.create_task(self._watch(version, selector))
        try:
            while not watching.done():
                self._changed.clear()
                await self._settle(owner)
                await self._news()
            await watching
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, version: str, selector: Mapping[str, str]) -> None:
        try:
            async with aclosing(self._api.watch(SLICES, version, **selector)) as events:
                async for event in events:
                    self._take(str(event.get("type")), event.get("object") or {})
        finally:
            self._changed.set()

    async def _news(self) -> None:
        """Until something has changed, or it is time to look at the cards again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                await self._changed.wait()

    def _take(self, kind: str, found: Json) -> None:
        """The answer to our own write and the watch come in any order: news older than what we know are no news."""
        name, version = str((found.get("metadata") or {}).get("name")), _version(found)
        if kind not in ("ADDED", "MODIFIED", "DELETED") or not _ours(found, self._node):
            return
        if version < self._newest.get(name, 0):
            return
        self._newest[name] = version
        if kind == "DELETED":
            self._seen.pop(name, None)
        else:
            self._seen[name] = found
        self._changed.set()

    async def _settle(self, owner: Json) -> None:
        name = slice_name(self._node)
        for stray in self._seen.keys() - {name}:
            await self._api.delete(f"{SLICES}/{stray}")
            self._seen.pop(stray, None)
        present = self._seen.get(name)
        generation = max((item["spec"]["pool"].get("generation", 0) for item in self._seen.values()), default=0) + 1
        wanted = build_slice(self._node, owner, self._devices(), generation)
        if present is not None and _same(present, wanted):
            self.published = True
            return
        self.published = False
        self._take("MODIFIED", await self._api.apply(f"{SLICES}/{name}", wanted))
        self.published = name in self._seen
        log.info("Published %d devices as %s, generation %d.", len(wanted["spec"]["devices"]), name, generation)
        await asyncio.sleep(_PAUSE)

    async def _owner(self) -> Json:
        """The slice goes with its node."""
        found = await self._api.get(f"/api/v1/nodes/{self._node}")
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._node,
            "uid": found["metadata"]["uid"],
            "controller": True,
        }


def _ours(found: Json, node: str) -> bool:
    spec = found.get("spec") or {}
    return spec.get("driver") == DRIVER and spec.get("nodeName") == node


def _version(found: Mapping[str, Any]) -> int:
    text = str((found.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


def _same(present: Json, wanted: Json) -> bool:
    """What cannot be understood is not the same."""
    owners = [owner.get("uid") for owner in present["metadata"].get("ownerReferences") or ()]
    if owners != [wanted["metadata"]["ownerReferences"][0]["uid"]]:
        return False
    try:
        return bool(essence(present["spec"]) == essence(wanted["spec"]))
    except (Invalid, AttributeError, TypeError):
        return False
