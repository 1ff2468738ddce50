"""What kubelet's calls meet first. During a rolling update two agents are registered, and kubelet calls the newer one: until that holds
the node's state, it passes the calls on to the other. So there is no moment in which a call fails for want of an agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc.aio

from vcuda.node.dra.plugin import Claims, Context, Health
from vcuda.node.proto import dra_v1_pb2 as dra
from vcuda.node.proto import health_v1alpha1_pb2 as health
from vcuda.node.proto.dra_v1_pb2_grpc import DRAPluginServicer, DRAPluginStub
from vcuda.node.proto.health_v1alpha1_pb2_grpc import DRAResourceHealthServicer

_ANSWER: Final = 40.0  # s; kubelet itself waits 45
_PAUSE: Final = 0.1  # s between two tries to reach the other agent


class Front(DRAPluginServicer, DRAResourceHealthServicer):
    """`other` is the socket of the agent that holds the state while this one does not; None when that has just changed."""

    def __init__(self, other: Callable[[], Path | None]) -> None:
        self._other = other
        self._opened = asyncio.Event()
        self._settled = asyncio.Event()  # whether this agent's turn comes or not

    def open(self, claims: Claims, device_health: Health) -> None:
        """From now on this agent answers by itself."""
        self._claims = claims
        self._health = device_health
        self._opened.set()
        self._settled.set()

    def close(self) -> None:
        """From now on this agent ends: whoever watches the health of devices watches the next one's."""
        self._settled.set()
        if self._opened.is_set():
            self._health.close()

    async def NodePrepareResources(  # noqa: N802
        self, request: dra.NodePrepareResourcesRequest, context: Context
    ) -> dra.NodePrepareResourcesResponse:
        answer: dra.NodePrepareResourcesResponse | None = await self._passed_on("NodePrepareResources", request)
        return await self._claims.NodePrepareResources(request, context) if answer is None else answer

    async def NodeUnprepareResources(  # noqa: N802
        self, request: dra.NodeUnprepareResourcesRequest, context: Context
    ) -> dra.NodeUnprepareResourcesResponse:
        answer: dra.NodeUnprepareResourcesResponse | None = await self._passed_on("NodeUnprepareResources", request)
        return await self._claims.NodeUnprepareResources(request, context) if answer is None else answer

    async def NodeWatchResources(  # noqa: N802
        self, request: health.NodeWatchResourcesRequest, context: Context
    ) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        """Silent while the other agent tells it. Ends with this agent."""
        await self._settled.wait()
        if self._opened.is_set():
            async for told in self._health.NodeWatchResources(request, context):
                yield told

    async def _passed_on(self, call: str, request: Any) -> Any:
        """The other agent's answer; None when the state is ours. Whatever it has left half done, the same call to us finishes."""
        while not self._opened.is_set():
            other = self._other()
            with suppress(grpc.aio.AioRpcError):
                if other is not None:
                    return await _ask(other, call, request)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._opened.wait()
        return None


async def _ask(other: Path, call: str, request: Any) -> Any:
    local = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{other}", options=local) as channel:
        return await getattr(DRAPluginStub(channel), call)(request, timeout=_ANSWER)
