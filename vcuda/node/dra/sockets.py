"""Where kubelet meets the agent: a socket in its registry, which names the one for its calls.

Each agent has two of its own, named by its process, so that a new one is there before the old one goes (kubelet knows several at a time).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc.aio

from vcuda.node.dra.allocation import DRIVER
from vcuda.node.dra.front import Front
from vcuda.node.dra.plugin import Context
from vcuda.node.errors import Unavailable
from vcuda.node.proto import registration_v1_pb2 as registration
from vcuda.node.proto.dra_v1_pb2_grpc import add_DRAPluginServicer_to_server
from vcuda.node.proto.health_v1alpha1_pb2_grpc import add_DRAResourceHealthServicer_to_server
from vcuda.node.proto.registration_v1_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server

SERVICES: Final = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")
_GRACE: Final = 20.0  # s for calls that run when we stop: longer than an API server may take to answer, shorter than a pod's own grace of 30
_LATE: Final = 1.0  # s between kubelet's choice of a plugin and its call, at most
_SOCKET_PATH: Final = 107  # bytes, the kernel's limit
log = logging.getLogger(__name__)


class Registrar(RegistrationServicer):
    """Tells kubelet where the plugin listens. `registered` is what kubelet said last; None: it has not come yet."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.registered: bool | None = None

    async def GetInfo(  # noqa: N802
        self,
        request: registration.InfoRequest,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(self._endpoint), supported_versions=SERVICES
        )

    async def NotifyRegistrationStatus(  # noqa: N802
        self,
        request: registration.RegistrationStatus,
        context: Context,  # noqa: ARG002
    ) -> registration.RegistrationStatusResponse:
        self.registered = request.plugin_registered
        if request.plugin_registered:
            log.info("kubelet has registered %s.", DRIVER)
        else:
            log.error("kubelet refuses %s: %s", DRIVER, request.error)
        return registration.RegistrationStatusResponse()


class Sockets:
    """The plugin's socket, and the one in kubelet's registry, which appears when the first answers and goes before it."""

    def __init__(self, kubelet: Path, front: Front, process: int | None = None) -> None:
        process = process or os.getpid()
        self.plugin = plugin_socket(kubelet, process)
        self.registry = kubelet / "plugins_registry" / f"{DRIVER}-{process}-reg.sock"
        self.registrar = Registrar(self.plugin)
        self._servers: list[grpc.aio.Server] = []
        self._front = front

    async def start(self) -> None:
        plugin, registry = grpc.aio.server(), grpc.aio.server()
        add_DRAPluginServicer_to_server(self._front, plugin)
        add_DRAResourceHealthServicer_to_server(self._front, plugin)
        add_RegistrationServicer_to_server(self.registrar, registry)
        self.registry.unlink(missing_ok=True)  # of a former agent; kubelet must not call before we answer
        for server, path in ((plugin, self.plugin), (registry, self.registry)):
            if len(str(path).encode()) > _SOCKET_PATH:
                raise Unavailable(f"The socket's path is too long for the kernel: {path}.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            self._servers.append(server)

    async def retire(self) -> None:
        """Leave kubelet's registry and go on answering for a moment: on a busy machine it may have chosen us just before."""
        if self._servers and self.registry.exists():
            self.registry.unlink(missing_ok=True)
            await asyncio.sleep(_LATE)

    async def stop(self) -> None:
        """Calls that run are answered, however slow the API server is: what we cancel, kubelet tells the pod's owner as a failure."""
        self._front.close()
        for server, path in zip(reversed(self._servers), (self.registry, self.plugin), strict=False):
            path.unlink(missing_ok=True)
            await server.stop(_GRACE)
        self._servers.clear()

    def clear(self) -> None:
        """Take away the sockets of agents that were killed. kubelet would keep trying to reach them."""
        for path in self._all():
            if path not in (self.plugin, self.registry) and not _lives(path):
                path.unlink(missing_ok=True)

    def _all(self) -> Iterator[Path]:
        """Those in the registry first: kubelet leaves a plugin before its socket goes."""
        yield from self.registry.parent.glob(f"{DRIVER}*-reg.sock")
        yield from self.plugin.parent.glob("dra*.sock")


def plugin_socket(kubelet: Path, process: int) -> Path:
    return kubelet / "plugins" / DRIVER / f"dra-{process}.sock"


def _lives(path: Path) -> bool:
    """Whether the process that a socket is named after is there: we see those of the whole machine."""
    named = re.search(r"-(\d+)(-reg)?\.sock$", path.name)
    return named is not None and Path("/proc", named[1]).exists()
