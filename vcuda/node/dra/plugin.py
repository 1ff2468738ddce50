"""What kubelet calls: preparing and unpreparing claims, the health of devices.

A claim's state is on disk alone (first its CDI file, then its folder; the other way round when it goes), each part complete or
absent. So whatever was interrupted, the same call again finishes it, and what nobody asks for any more can be found.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from vcuda.node.dra.allocation import Allocation, device_name, read_allocation
from vcuda.node.dra.cdi import CdiFolder, device_id
from vcuda.node.dra.kubeapi import ApiError, KubeApi
from vcuda.node.errors import Conflict, Invalid, Missing, NodeError
from vcuda.node.node import Node
from vcuda.node.prepare import our_account
from vcuda.node.proto import dra_v1_pb2 as dra
from vcuda.node.proto import health_v1alpha1_pb2 as health
from vcuda.node.proto.dra_v1_pb2_grpc import DRAPluginServicer
from vcuda.node.proto.health_v1alpha1_pb2_grpc import DRAResourceHealthServicer

CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
_GONE: Final = ("claim_replaced", "not_allocated", "other_node")  # all else is not known, and not known is not gone
_HEALTH_EVERY: Final = 10.0  # s; kubelet calls a device's health unknown after 30 s
_LOOK: Final = 1.0
log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]


class Claims(DRAPluginServicer):
    """Claims of this node; `pool` is the node's name."""

    def __init__(self, node: Node, api: KubeApi, cdi: CdiFolder, pool: str) -> None:
        self._node = node
        self._api = api
        self._cdi = cdi
        self._pool = pool

    async def NodePrepareResources(  # noqa: N802
        self,
        request: dra.NodePrepareResourcesRequest,
        context: Context,  # noqa: ARG002
    ) -> dra.NodePrepareResourcesResponse:
        answers = await asyncio.gather(*(self._prepared(claim) for claim in request.claims))
        return dra.NodePrepareResourcesResponse(claims={c.uid: a for c, a in zip(request.claims, answers, strict=True)})

    async def NodeUnprepareResources(  # noqa: N802
        self,
        request: dra.NodeUnprepareResourcesRequest,
        context: Context,  # noqa: ARG002
    ) -> dra.NodeUnprepareResourcesResponse:
        return dra.NodeUnprepareResourcesResponse(claims={c.uid: self._unprepared(c) for c in request.claims})

    async def _prepared(self, asked: dra.Claim) -> dra.NodePrepareResourceResponse:
        """One bad claim is answered in its own field; the others of the call go on."""
        try:
            allocation = await self._read(asked)
            try:
                self._keep(allocation, asked)
            except Conflict as refusal:
                if refusal.code != "no_room":
                    raise
                await self.sweep()  # perhaps somebody has gone without a word
                self._keep(allocation, asked)
        except (NodeError, OSError) as error:
            _tell("prepared", asked, error)
            return dra.NodePrepareResourceResponse(error=str(error) or type(error).__name__)
        return dra.NodePrepareResourceResponse(devices=_devices(allocation))

    async def _read(self, asked: dra.Claim) -> Allocation:
        """Raises NodeError for everything that can be wrong with a claim."""
        found = await self._api.get(CLAIMS.format(namespace=asked.namespace, name=asked.name))
        cards = [card.facts for card in self._node.cards.values()]
        try:
            return read_allocation(found, uid=asked.uid, pool=self._pool, cards=cards, account=our_account())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Invalid(f"The ResourceClaim cannot be read: {type(error).__name__}: {error}") from None

    def _keep(self, allocation: Allocation, asked: dra.Claim) -> None:
        self._cdi.write(allocation, namespace=asked.namespace, name=asked.name)
        try:
            self._node.bring(allocation.claim)
            self._node.tell_pods(asked.uid, allocation.pods)
        except (NodeError, OSError):
            if not self._node.knows(asked.uid):
                self._cdi.remove(asked.uid)
            raise

    def _unprepared(self, asked: dra.Claim) -> dra.NodeUnprepareResourceResponse:
        """While processes hold the claim, kubelet has to ask again."""
        try:
            self.release(asked.uid)
        except (NodeError, OSError) as error:
            _tell("unprepared", asked, error)
            return dra.NodeUnprepareResourceResponse(error=str(error) or type(error).__name__)
        return dra.NodeUnprepareResourceResponse()

    def release(self, uid: str) -> None:
        """Raises Conflict while processes use the claim."""
        self._node.delete(uid)
        self._cdi.remove(uid)

    async def sweep(self) -> None:
        """Look at every claim again: which pods use it, and remove it when its ResourceClaim is gone, is another one now, or has
        been taken from this node. kubelet asks for that itself, unless it has lost its own record or a pod was removed by force.
        """
        for uid, namespace, name in list(self._cdi.owners()):
            try:
                found = await self._read(dra.Claim(uid=uid, namespace=namespace, name=name))
                self._node.tell_pods(uid, found.pods)
                self._obey(found)
            except NodeError as error:
                if error.code in _GONE or (isinstance(error, ApiError) and error.status == 404):
                    self._sweep(uid, namespace, name, error)

    async def refresh(self, uid: str) -> None:
        """Read one claim again, since somebody says that its limits have changed. Raises NodeError where it is not there or refuses."""
        for known, namespace, name in self._cdi.owners():
            if known == uid:
                self._obey(await self._read(dra.Claim(uid=uid, namespace=namespace, name=name)))
                return
        raise Missing(f"There is no claim {uid}.")

    def _obey(self, found: Allocation) -> None:
        """A claim that was never prepared is not made here: kubelet alone says when."""
        if found.claim.name in self._node.claims:
            self._node.bring(found.claim)

    def _sweep(self, uid: str, namespace: str, name: str, why: NodeError) -> None:
        try:
            self.release(uid)
        except (NodeError, OSError) as error:
            log.warning("Claim %s of %s/%s is orphaned and stays for now: %s", uid, namespace, name, error)
        else:
            log.warning("Removed claim %s of %s/%s: %s", uid, namespace, name, why)


class Health(DRAResourceHealthServicer):
    """`illness` maps a card's UUID to a reason, empty for a healthy one."""

    def __init__(self, node: Node, illness: Callable[[], Mapping[str, str]], pool: str) -> None:
        self._node = node
        self._illness = illness
        self._pool = pool
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Ends every stream."""
        self._closed.set()

    async def NodeWatchResources(  # noqa: N802
        self,
        request: health.NodeWatchResourcesRequest,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        """All devices at once, at each change and often enough not to be taken for unknown."""
        told: Mapping[str, str] | None = None
        told_at = 0.0
        while not self._closed.is_set():
            illness = dict(self._illness())
            if illness != told or time.monotonic() - told_at >= _HEALTH_EVERY:
                told, told_at = illness, time.monotonic()
                yield health.NodeWatchResourcesResponse(devices=[self._device(u, r) for u, r in illness.items()])
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._closed.wait()

    def _device(self, uuid: str, reason: str) -> health.DeviceHealth:
        name = device_name(self._node.cards[uuid].facts)
        return health.DeviceHealth(
            device=health.DeviceIdentifier(pool_name=self._pool, device_name=name),
            health=health.UNHEALTHY if reason else health.HEALTHY,
            last_updated_time=int(time.time()),
            message=reason,
        )


def _devices(allocation: Allocation) -> Sequence[dra.Device]:
    return [
        dra.Device(
            request_names=granted.requests,
            pool_name=granted.pool,
            device_name=granted.device,
            cdi_device_ids=[device_id(allocation.claim.name, granted.device)],
            share_id=granted.share_id,
        )
        for granted in allocation.granted
    ]


def _tell(done: str, asked: dra.Claim, error: Exception) -> None:
    log.warning("Claim %s of %s/%s is not %s: %s", asked.uid, asked.namespace, asked.name, done, error)
