"""Does a claim ever hold more than its limit, and how soon is the memory of the dead usable again?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from vcuda.bench.agent import Agent
from vcuda.bench.figure import Figure
from vcuda.bench.programs import Programs, bare
from vcuda.bench.simnode import SimNode

LIMIT = 4 << 30  # bytes
SHARE = 900  # per mille: who has a whole card has it without the library
RACERS, THREADS, ROUNDS, LARGEST_MIB = 8, 64, 60, 128
KILLS = 15


def measure(build: Path) -> Iterator[Figure]:
    yield Figure(
        name="vcuda.memory.overshoot",
        value=_overshoot(build, limited=True),
        unit="bytes",
        bar=0,
        control=_overshoot(build, limited=False),
        method=f"{RACERS} processes x {THREADS} threads race to a limit of {LIMIT >> 30} GiB, "
        f"{RACERS * THREADS * ROUNDS} rounds; the card's own peak above it; control: limiter off",
    )
    yield Figure(
        name="vcuda.memory.reuse",
        value=_reuse_ms(build),
        unit="ms",
        bar=10,
        method=f"from the end of a process killed with -9 that held the whole limit to the same allocation by another; median of {KILLS}",
    )


def _race(node: SimNode, environment: dict[str, str]) -> int:
    racers = Programs(node, environment, ["race", str(THREADS), str(ROUNDS), str(LARGEST_MIB)], count=RACERS)
    try:
        racers.go()
        if any(other for _, _, other in racers.answers()):
            raise RuntimeError("a racer got an answer other than success and out-of-memory")
    finally:
        racers.kill()
    return node.peak()


def _overshoot(build: Path, *, limited: bool) -> int:
    with SimNode(build, "h100") as node:
        if not limited:
            return max(0, _race(node, bare(node)) - LIMIT)
        with Agent(node) as agent:
            return max(0, _race(node, agent.claim("bench", uuid=node.uuids[0], memory=LIMIT, compute=SHARE)) - LIMIT)


def _reuse_ms(build: Path) -> float:
    with SimNode(build, "h100") as node, Agent(node) as agent:
        environment = agent.claim("bench", uuid=node.uuids[0], memory=LIMIT, compute=SHARE)
        return median(_one_reuse(node, environment) for _ in range(KILLS)) / 1e6


def _one_reuse(node: SimNode, environment: dict[str, str]) -> int:
    """ns"""
    holder, heir = (Programs(node, environment, ["holder", str(LIMIT - (1 << 30))]) for _ in range(2))
    try:
        _allocate(holder)
        holder.kill()
        begun = time.monotonic_ns()
        _allocate(heir)
        return time.monotonic_ns() - begun
    finally:
        heir.kill()


def _allocate(program: Programs) -> None:
    program.go()
    answers = program.answers()
    if answers != [[0]]:
        raise RuntimeError(f"the allocation answered {answers}")
