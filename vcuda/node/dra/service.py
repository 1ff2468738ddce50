"""The agent as the DRA driver of its node: what `--kubernetes` adds, from start to a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from vcuda.node.dra import host
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.dra.devices import build_devices
from vcuda.node.dra.front import Front
from vcuda.node.dra.kubeapi import Json, KubeApi
from vcuda.node.dra.plugin import Claims, Health
from vcuda.node.dra.slices import Publisher
from vcuda.node.dra.sockets import Sockets, plugin_socket
from vcuda.node.node import Node
from vcuda.node.options import Place
from vcuda.node.prepare import Libraries
from vcuda.node.state import holder

_SWEEP: Final = 300.0  # s between two looks for claims that nobody will ask about again
log = logging.getLogger(__name__)


class DraDriver:
    """`on_failure` is called when a part of this ends by itself."""

    def __init__(self, place: Place, state: Path, on_failure: Callable[[], None]) -> None:
        self._place = place
        self._on_failure = on_failure
        self._state = state
        self._front = Front(self._other)
        self._sockets = Sockets(place.kubelet, self._front)
        self._published: Callable[[], bool] = bool
        self._api: KubeApi | None = None
        self._claims: Claims | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def appear(self) -> None:
        """kubelet can call when this returns; as long as we have not started, the agent that holds the node's state answers."""
        self._api = await KubeApi.connect()
        await self._sockets.start()

    async def start(self, node: Node, libraries: Libraries | None, illness: Callable[[], Mapping[str, str]]) -> None:
        """After `appear`, when the node's state is ours. Cards are published as soon as the API server answers.

        `illness` maps a card's UUID to a reason, empty for a healthy one.
        """
        assert self._api
        name = self._place.node_name
        self._sockets.clear()
        cdi = CdiFolder(self._place.cdi, node.root, libraries, self._host_driver(node, libraries))
        cdi.clear()
        claims = self._claims = Claims(node, self._api, cdi, name)
        facts = [card.facts for card in node.cards.values()]
        publisher = Publisher(self._api, name, lambda: build_devices(facts, illness(), simulated=node.simulated))
        self._published = lambda: publisher.published
        self._front.open(claims, Health(node, illness, name))
        for work in (publisher.run(), _sweep(claims)):
            task = asyncio.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """The slice stays: kubelet takes it away if nobody comes back, and a new agent goes on with it. Again: nothing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._sockets.retire()
        await self._sockets.stop()
        if self._api:
            await self._api.close()
            self._api = None

    async def refresh(self, uid: str) -> None:
        """Read a claim again, since its limits may have changed."""
        if self._claims:
            await self._claims.refresh(uid)

    def status(self) -> Json:
        return {"registered": bool(self._sockets.registrar.registered), "published": self._published()}

    def _other(self) -> Path | None:
        """The socket of the agent that works on our state."""
        process = holder(self._state)
        return None if process in (None, os.getpid()) else plugin_socket(self._place.kubelet, process)

    def _host_driver(self, node: Node, libraries: Libraries | None) -> host.HostDriver | None:
        if libraries is None or libraries.sim_node is not None:
            return None
        return host.find(self._place.root, libraries.driver, [card.facts for card in node.cards.values()])

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            log.error("A part of the DRA driver failed; the agent ends.", exc_info=task.exception())
            self._on_failure()


async def _sweep(claims: Claims) -> None:
    while True:
        await claims.sweep()
        await asyncio.sleep(_SWEEP)
