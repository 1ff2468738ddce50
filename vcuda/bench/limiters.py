"""What stands between a tenant's programs and the driver: ours, nothing, or another limiter's shared object.

All of them run on the same simulated cards and in the same virtual time. Ours takes part in it by a seam of its own; the others know
only the clock and the sleep of the C library, which programs/warp.c turns into the node's.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from vcuda.bench.agent import Agent
from vcuda.bench.programs import bare
from vcuda.bench.simnode import SimNode

MEMORY: Final = 16 << 30  # bytes of a claim, of no interest here: sixteen contexts fit into the half


class Limiter(Protocol):
    """`agents` of it take part in virtual time from the start on."""

    name: str
    agents: int

    def enter(self, node: SimNode, stack: ExitStack) -> Stage: ...


class Stage(Protocol):
    """A limiter at work on one node. Shares in per mille."""

    def tenant(self, name: str, compute: int, ceiling: int | None = None) -> dict[str, str]:
        """The environment of a tenant's programs."""

    def change(self, name: str, compute: int) -> None: ...


class Ours:
    """Library and node agent of this tree."""

    name = "tessera"
    agents = 1

    def enter(self, node: SimNode, stack: ExitStack) -> Stage:
        return _OurStage(node, stack.enter_context(Agent(node)))


@dataclass(slots=True)
class _OurStage:
    node: SimNode
    agent: Agent

    def tenant(self, name: str, compute: int, ceiling: int | None = None) -> dict[str, str]:
        return self.agent.claim(name, uuid=self.node.uuids[0], memory=MEMORY, compute=compute, ceiling=ceiling)

    def change(self, name: str, compute: int) -> None:
        self.agent.change(name, uuid=self.node.uuids[0], compute=compute)


class Off:
    """The driver alone: the control."""

    name = "off"
    agents = 0

    def enter(self, node: SimNode, stack: ExitStack) -> Stage:  # noqa: ARG002
        return _OffStage(node)


@dataclass(slots=True)
class _OffStage:
    node: SimNode

    def tenant(self, name: str, compute: int, ceiling: int | None = None) -> dict[str, str]:  # noqa: ARG002
        return bare(self.node)

    def change(self, name: str, compute: int) -> None:
        """Nothing limits, so nothing changes."""


@dataclass(slots=True)
class Preloaded:
    """A limiter that is preloaded and told its limits by variables: HAMi-core and what descends from it."""

    library: Path
    name: str = "preloaded"
    agents: int = 0

    @classmethod
    def of(cls, library: Path) -> Self:
        return cls(library, name=library.name.removesuffix(".so"))

    def enter(self, node: SimNode, stack: ExitStack) -> Stage:  # noqa: ARG002
        Path("/tmp/vgpulock").mkdir(exist_ok=True)  # noqa: S108  (a fixed place of that library)
        return _PreloadedStage(node, self.library)


@dataclass(slots=True)
class _PreloadedStage:
    node: SimNode
    library: Path

    def tenant(self, name: str, compute: int, ceiling: int | None = None) -> dict[str, str]:  # noqa: ARG002
        warp = self.node.build / "lib" / "tests" / "warp.so"
        return bare(self.node) | {
            "LD_PRELOAD": f"{warp}:{self.library}",
            "TESSERA_WARP": self.library.name,
            "TESSERA_WARP_DRIVER": str(self.node.build / "sim" / "libcuda.so.1"),
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{MEMORY >> 20}m",
            "CUDA_DEVICE_SM_LIMIT": str(compute // 10),
            "GPU_CORE_UTILIZATION_POLICY": "force",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(self.node.folder / f"{name}.cache"),
            "LIBCUDA_LOG_LEVEL": "0",
        }

    def change(self, name: str, compute: int) -> None:  # noqa: ARG002
        raise RuntimeError(f"{self.library.name} reads its limits once, when a program starts: they cannot change")


def foreign(library: Path) -> Limiter:
    """The limiter in another's shared object, by the way in which its family is put before the driver."""
    return Preloaded.of(library)
