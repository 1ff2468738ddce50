"""The agent as the DRA driver of its node: what `--kubernetes` adds, from start to a clean end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from vcuda.node.dra import host
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.dra.devices import build_devices
from vcuda.node.dra.kubeapi import Json, KubeApi
from vcuda.node.dra.plugin import Claims, Health, Sockets
from vcuda.node.dra.slices import Publisher
from vcuda.node.node import Node
from vcuda.node.options import Place
from vcuda.node.prepare import Libraries

_SWEEP: Final = 300.0  # s between two looks for claims that nobody will ask about again
log = logging.getLogger(__name__)


class DraDriver:
    """`illness` maps a card's UUID to a reason, empty for a healthy one; `on_failure` is called when a part of this ends by itself."""

    def __init__(
        self,
        node: Node,
        libraries: Libraries | None,
        place: Place,
        illness: Callable[[], Mapping[str, str]],
        on_failure: Callable[[], None],
    ) -> None:
        self._node = node
        self._libraries = libraries
        self._place = place
        self._illness = illness
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """kubelet can call when this returns; cards are published as soon as the API server answers."""
        self._api = await KubeApi.connect()
        cdi = CdiFolder(self._place.cdi, self._node.root, self._libraries, self._host_driver())
        cdi.clear()
        self._claims = Claims(self._node, self._api, cdi, self._place.node_name)
        self._publisher = Publisher(self._api, self._place.node_name, self._devices)
        self._sockets = Sockets(
            self._place.kubelet, self._claims, Health(self._node, self._illness, self._place.node_name)
        )
        await self._sockets.start()
        for work in (self._publisher.run(), self._sweep()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """The slice stays: kubelet takes it away if nobody comes back, and a new agent goes on with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sockets.stop()
        await self._api.close()

    def status(self) -> Json:
        return {"registered": bool(self._sockets.registrar.registered), "published": self._publisher.published}

    def _devices(self) -> list[Json]:
        facts = [card.facts for card in self._node.cards.values()]
        return build_devices(facts, self._illness(), simulated=self._node.simulated)

    def _host_driver(self) -> host.HostDriver | None:
        if self._libraries is None or self._libraries.sim_node is not None:
            return None
        return host.find(self._place.root, self._libraries.driver, [card.facts for card in self._node.cards.values()])

    async def _sweep(self) -> None:
        while True:
            await self._claims.sweep()
            await asyncio.sleep(_SWEEP)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            log.error("A part of the DRA driver failed; the agent ends.", exc_info=task.exception())
            self._on_failure()
