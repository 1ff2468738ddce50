"""Claims on a simulated node for the shim tests: folders as the node agent makes them, and tenants' programs inside and outside of them.

What the card really holds is read from the simulator's own state (`tessera-sim show`), never from the ledger under test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(PROJECT))

from vcuda.bench.simnode import SimNode  # noqa: E402
from vcuda.node.layout import ConfigFile, DeviceRecord, LedgerFile, LockFile, create_files  # noqa: E402

BUILD = Path(os.environ.get("TESSERA_TEST_BUILD", PROJECT / "build" / "vcuda"))
LIB, SIM, PROGRAMS = BUILD / "lib", BUILD / "sim", BUILD / "lib" / "tests"

MIB = 1 << 20
GIB = 1 << 30
OUT_OF_MEMORY = 2
INVALID_VALUE = 1


class Node(SimNode):
    """A node of simulated cards, on which claims are made by hand."""

    def __init__(self, cards: str, *options: str) -> None:
        super().__init__(BUILD, cards, *options)

    def claim(self, name: str = "claim", **limits: Any) -> Claim:
        return Claim(self, name, **limits)


class Claim:
    """One claim: its four files and its library folder, laid out as the node agent does it."""

    def __init__(
        self, node: Node, name: str, *, cards: tuple[int, ...] = (0,), memory: int = 8 * GIB, **fields: Any
    ) -> None:
        self.node = node
        self.folder = node.folder / name
        self.library = self.folder / "lib"
        (self.library / "driver").mkdir(parents=True)
        share = {"guarantee": 1000, "ceiling": 1000, "share": 1000, "flags": 1} | fields
        records = [DeviceRecord(uuid=node.uuids[card], memory_limit=memory, **share) for card in cards]
        create_files(self.folder, tag=name.encode().ljust(16, b"\0")[:16], records=records)
        self._link()
        self.config = ConfigFile(self.folder / "config", writable=True)
        self.ledger = LedgerFile(self.folder / "ledger")
        self.lock = LockFile(self.folder / "lock")

    def _link(self) -> None:
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (self.library / name).symlink_to(LIB / name)
            (self.library / "driver" / name).symlink_to(SIM / name)
        (self.library / "driver" / "tessera-sim.node").symlink_to(self.node.path)
        (self.library / "claim").symlink_to(self.folder)

    def update(self, index: int = 0, **changes: Any) -> None:
        self.config.write(index, replace(self.config.read(index), **changes))

    def reserved(self, index: int = 0) -> int:
        return self.ledger.device(index).reserved_bytes

    def environment(self, **more: str) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.library), "PATH": os.environ["PATH"]} | sanitizers() | more

    def run(self, program: str, *words: str, **more: str) -> subprocess.Popen[str]:
        command = [str(PROGRAMS / program), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environment(**more), stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def probe(self, *, device: int | None = 0, **more: str) -> Probe:
        probe = Probe(self.run("probe", **more))
        if device is not None:
            answer = probe.ask("init", device)
            assert answer == 0, f"cuInit and the primary context answered {answer}"
        return probe


class Probe:
    """A tenant's program that obeys line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def answer(self, *words: object) -> list[int]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the program died at {words!r} with status {self.process.wait()}"
        return [int(word) for word in line.split()]

    def ask(self, *words: object) -> int:
        return self.answer(*words)[0]

    def kill(self) -> None:
        """kill -9, and wait until the kernel has let go of everything."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def sanitizers() -> dict[str, str]:
    """Leaks are not looked for: the driver keeps its tables for the life of the process."""
    return {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}


class ShimTest(unittest.TestCase):
    """A node with two cards, and whatever a test started is gone afterwards."""

    cards = "h100,t4"
    options: tuple[str, ...] = ()

    def setUp(self) -> None:
        self.node = Node(self.cards, *self.options)
        self.addCleanup(self.node.close)

    def probe(self, claim: Claim, *, device: int | None = 0, **more: str) -> Probe:
        probe = claim.probe(device=device, **more)
        self.addCleanup(self._stop, probe)
        return probe

    @staticmethod
    def _stop(probe: Probe) -> None:
        if probe.process.poll() is None:
            probe.kill()
