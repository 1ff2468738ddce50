"""Many processes at once: how long until all can work, and how long does the library ever hold a lock meanwhile? In real time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from vcuda.bench.agent import Agent
from vcuda.bench.figure import Figure
from vcuda.bench.programs import Programs, bare
from vcuda.bench.simnode import SimNode

AT_ONCE: Final = 128
ROUNDS: Final = 3
SHARE: Final = 900  # per mille: who has a whole card has it without the library
MEMORY: Final = 70 << 30  # bytes of the claim; 128 contexts need half of it
RACERS, THREADS, TURNS, LARGEST_MIB = 8, 8, 200, 128


def started(build: Path) -> Iterator[Figure]:
    with SimNode(build, "h100") as node, Agent(node) as agent:
        environment = agent.claim("storm", uuid=node.uuids[0], memory=MEMORY, compute=SHARE)
        turns = [(_start(node, environment), _start(node, bare(node))) for _ in range(ROUNDS)]
    ours, theirs = (median(column) for column in zip(*turns, strict=True))
    yield Figure(
        name="vcuda.start.128",
        value=ours,
        unit="s",
        bar=2,
        ratio_to="the bare driver",
        ratio=ours / theirs,
        method=f"from the first fork until the last of {AT_ONCE} processes of one claim has its context; median of {ROUNDS} rounds in turns with "
        f"the driver alone ({theirs:.2f} s)",
    )


def _start(node: SimNode, environment: dict[str, str]) -> float:
    """Seconds. Programs start one after the other without waiting for what they say."""
    begun = time.monotonic()
    programs = Programs(node, environment, ["holder", "1"], count=AT_ONCE)
    took = time.monotonic() - begun
    programs.kill()
    return took


def locked(build: Path) -> Iterator[Figure]:
    with SimNode(build, "h100") as node, Agent(node) as agent:
        rows = _race(node, agent.claim("storm", uuid=node.uuids[0], memory=MEMORY, compute=SHARE))
    sections, interrupted = (sum(row[column] for row in rows) for column in (0, 2))
    if not sections:
        raise RuntimeError("no lock of the library was seen: was it before the driver at all?")
    yield Figure(
        name="vcuda.locks.longest",
        value=max(row[1] for row in rows) / 1e6,
        unit="ms",
        bar=1,
        method=f"longest of {sections} critical sections of the library in {RACERS} processes x {THREADS} threads that start, allocate and free; "
        f"{interrupted} in which the machine gave the processor to others are left out (longest {max(row[3] for row in rows) / 1e6:.2g} ms)",
    )


def _race(node: SimNode, environment: dict[str, str]) -> list[list[int]]:
    """Of each process: sections, the longest in ns, interrupted sections, the longest of those in ns."""
    out = node.folder / "held"
    watched = environment | {
        "LD_PRELOAD": str(node.build / "lib" / "tests" / "held.so"),
        "TESSERA_HELD": f"{environment['LD_LIBRARY_PATH'].split(':', maxsplit=1)[0]}/libcuda.so.1",
        "TESSERA_HELD_OUT": str(out),
    }
    racers = Programs(node, watched, ["race", str(THREADS), str(TURNS), str(LARGEST_MIB)], count=RACERS)
    racers.go()
    racers.answers()
    racers.go()
    racers.wait()
    return [[int(word) for word in line.split()] for line in out.read_text().splitlines()]
