"""A simulated node in a temporary folder, seen from outside; and a participant that stands in its virtual time."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

SECOND = 1_000_000_000
T = TypeVar("T")


class SimNode:
    """Made by `tessera-sim`; gone when closed. `build` is the folder with `lib/` and `sim/`."""

    def __init__(self, build: Path, cards: str, *options: str) -> None:
        self.build = build
        self.folder = Path(tempfile.mkdtemp(prefix="tessera-node-"))
        self.folder.chmod(0o711)
        self.path = self.folder / "node"
        self.tool("create", "--cards", cards, *options)
        self.uuids: list[str] = [card["uuid"] for card in self.show()["cards"]]

    def tool(self, verb: str, *words: str) -> str:
        command = [str(self.build / "sim" / "tessera-sim"), verb, str(self.path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.tool("show", "--json"))
        return shown

    def used(self, card: int = 0) -> int:
        """Bytes on the card, all processes."""
        return int(self.show()["cards"][card]["used_bytes"])

    def busy(self, pid: int, card: int = 0) -> int:
        """GPU time that a process has had, ns."""
        processes = self.show()["cards"][card]["processes"]
        return sum(int(process["busy_ns"]) for process in processes if process["pid"] == pid)

    def peak(self, card: int = 0) -> int:
        """The most bytes that were ever on the card."""
        return int(self.show()["cards"][card]["peak_bytes"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        shutil.rmtree(self.folder)


class Participant:
    """One of those whose waiting lets virtual time pass: while it looks, the clock stands still."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self._sim = ctypes.CDLL(str(node.build / "sim" / "libcuda.so.1"))
        self._sim.tesseraSimSleepUntil.argtypes = [ctypes.c_uint64]
        self._sim.tesseraSimBusy.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64)]
        if self._sim.tesseraSimRegisterThread() != 0:
            raise RuntimeError(f"{node.path} takes no part in virtual time: was it made with --time virtual?")
        self.start = self.now()

    def now(self) -> int:
        """Node time, ns."""
        ns = ctypes.c_uint64()
        if self._sim.tesseraSimNow(ctypes.byref(ns)) != 0:
            raise RuntimeError("the node's clock does not answer")
        return ns.value

    def until(self, seconds: float) -> int:
        """Sleep until so long after the start; answers the busy time of the first card so far, ns."""
        self._sim.tesseraSimSleepUntil(self.start + int(seconds * SECOND))
        return self.busy(0)

    def busy(self, pid: int) -> int:
        """GPU time that a living process has had of the first card, ns; pid 0: all of them. 0 for one that is not there."""
        ns = ctypes.c_uint64()
        return ns.value if self._sim.tesseraSimBusy(0, pid, ctypes.byref(ns)) == 0 else 0

    def share(self, begin: float, end: float) -> float:
        """Per mille of the first card between two moments, in seconds after the start."""
        before = self.until(begin)
        return (self.until(end) - before) / ((end - begin) * 1e6)


def in_virtual_time(node: SimNode, go: Callable[[], None], look: Callable[[Participant], T]) -> T:
    """Run `look` as a participant, in a process of its own since one takes part in one node's time only; `go` starts the others."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_look, args=(node, there, look))
    child.start()
    there.close()
    if here.recv() != "registered":
        raise RuntimeError("the observer did not come up")
    go()
    try:
        answer: T = here.recv()
        return answer
    finally:
        child.join()


def _look(node: SimNode, pipe: Any, look: Callable[[Participant], Any]) -> None:
    os.environ["TESSERA_SIM_NODE"] = str(node.path)
    participant = Participant(node)
    pipe.send("registered")
    pipe.send(look(participant))
