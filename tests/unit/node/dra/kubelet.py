"""What kubelet does with a plugin, by a real gRPC client over the plugin's sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from vcuda.node.proto import dra_v1_pb2 as dra
from vcuda.node.proto import registration_v1_pb2 as registration
from vcuda.node.proto.dra_v1_pb2_grpc import DRAPluginStub
from vcuda.node.proto.health_v1alpha1_pb2_grpc import DRAResourceHealthStub
from vcuda.node.proto.registration_v1_pb2_grpc import RegistrationStub

REGISTRY = "plugins_registry/gpu.tessera.dev-*-reg.sock"
BOUND = 30  # s; only says when a test gives up


class Kubelet:
    """A connection to the endpoint that registration named."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._plugin = DRAPluginStub(channel)
        self.health = DRAResourceHealthStub(channel)

    async def prepare(self, *claims: tuple[str, str]) -> dict[str, dra.NodePrepareResourceResponse]:
        """Claims are (uid, name) in the namespace `tenant`."""
        request = dra.NodePrepareResourcesRequest(claims=_named(claims))
        return dict((await self._plugin.NodePrepareResources(request, timeout=BOUND)).claims)

    async def unprepare(self, *claims: tuple[str, str]) -> dict[str, str]:
        request = dra.NodeUnprepareResourcesRequest(claims=_named(claims))
        answer = await self._plugin.NodeUnprepareResources(request, timeout=BOUND)
        return {uid: found.error for uid, found in answer.claims.items()}


@asynccontextmanager
async def kubelet(folder: Path, process: int | None = None) -> AsyncIterator[Kubelet]:
    """Registers the plugin in `folder` as kubelet does, and connects; `process` is the agent's where there are several."""
    local = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{_registered(folder, process)}", options=local) as registry:
        stub = RegistrationStub(registry)
        info = await stub.GetInfo(registration.InfoRequest(), timeout=BOUND)
        assert (info.type, info.name) == ("DRAPlugin", "gpu.tessera.dev")
        assert "v1.DRAPlugin" in info.supported_versions
        await stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True), timeout=BOUND)
        async with grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=local) as channel:
            yield Kubelet(channel)


def _registered(folder: Path, process: int | None) -> Path:
    (found,) = folder.glob(REGISTRY.replace("*", str(process or "*")))
    return found


def _named(claims: tuple[tuple[str, str], ...]) -> list[dra.Claim]:
    return [dra.Claim(uid=uid, namespace="tenant", name=name) for uid, name in claims]
