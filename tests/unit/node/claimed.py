"""A node without a driver: real claim files, looks made by the test, the library's side of a ledger written by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vcuda.node.mapped import Words
from vcuda.node.node import Node
from vcuda.node.nvml import Busy, CardFacts, Look, Process
from vcuda.node.prepare import CUDA, NVML, Libraries

GIB = 1024**3
MS = 1_000_000
CARD = "GPU-00000000-0000-0000-0000-000000000001"
SECOND_CARD = "GPU-00000000-0000-0000-0000-000000000002"
_SLOTS_AT, _SLOT, _CARDS_AT, _CARD = 12_288, 2_176, 4_096, 512  # vcuda/ABI.md


def facts(uuid: str = CARD, index: int = 0) -> CardFacts:
    return CardFacts(
        uuid=uuid,
        index=index,
        model="NVIDIA Test",
        physical_memory=80 * GIB,
        reserved_memory=512 * 1024**2,
        attributes={},
    )


def make_node(folder: Path) -> Node:
    """A node over `folder`; the same folder again is the agent after a restart."""
    libraries = folder / "libraries"
    for name in (CUDA, NVML):
        libraries.mkdir(exist_ok=True)
        (libraries / name).write_text(name)
    root = folder / "claims"
    root.mkdir(mode=0o711, exist_ok=True)
    node = Node(
        root=root,
        cards=[facts(), facts(SECOND_CARD, 1)],
        libraries=Libraries(
            shim=libraries, driver={name: libraries / name for name in (CUDA, NVML)}, sim_node=libraries / CUDA
        ),
        simulated=True,
    )
    node.adopt()
    return node


def body(*, memory: int = 8 * GIB, compute: int = 300, ceiling: int = 1000, uuid: str = CARD) -> dict[str, Any]:
    device = {"uuid": uuid, "memory": memory, "compute": compute, "ceiling": ceiling}
    return {"devices": [device], "uid": os.geteuid(), "gid": os.getegid()}


def look(
    *, percent: int = 0, used: dict[int, int] | None = None, busy: dict[int, int] | None = None, at: int = 0
) -> Look:
    """What the driver shows: bytes and per cent by process; `at` numbers the driver's windows."""
    return Look(
        percent=percent,
        processes=[Process(pid, held) for pid, held in (used or {}).items()],
        busy=[Busy(pid, share, at * 100_000) for pid, share in (busy or {}).items()],
    )


class LibrarySide:
    """Writes what the library of one process writes."""

    def __init__(self, claim: Path, *, slot: int = 0) -> None:
        self._words = Words(claim / "ledger", writable=True)
        self._slot_at = _SLOTS_AT + slot * _SLOT
        self._words.set("Q", self._slot_at, slot + 1)
        self._words.set("I", self._slot_at + 8, os.getpid())
        self._words.set("I", 120, max(self._words.get("I", 120), slot + 1))

    def add(self, offset: int, value: int) -> None:
        """Raise a counter of the first card; offsets as in vcuda/ABI.md."""
        at = _CARDS_AT + offset
        self._words.set("Q", at, self._words.get("Q", at) + value)

    def overwrite(self, offset: int, value: int) -> None:
        self._words.set("Q", _CARDS_AT + offset, value)

    def allocate(self, size: int) -> None:
        self.add(0, size)
        at = self._slot_at + 128
        self._words.set("Q", at, self._words.get("Q", at) + size)

    def charge(self, gpu_ns: int) -> None:
        self.add(128, gpu_ns)

    def queue(self, gpu_ns: int) -> None:
        """This much was launched and is not done."""
        self._words.set("Q", self._slot_at + 128 + 88, gpu_ns)

    def wait(self, launches: int) -> None:
        self._words.set("I", self._slot_at + 128 + 100, launches)
