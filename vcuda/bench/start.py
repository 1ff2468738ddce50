"""A program starts beside a busy neighbour: what does each get, second by second, before anything about the newcomer is known?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from vcuda.bench.agent import Agent
from vcuda.bench.figure import Figure
from vcuda.bench.programs import Programs, bare
from vcuda.bench.simnode import Participant, SimNode, in_virtual_time

ALONE, BESIDE = 3, 6  # seconds of card time: the neighbour before the newcomer starts, and both together
LIMITS = ((300, 600), (600, 300), (300, 100))  # per mille: the neighbour's, the newcomer's
KERNELS = (500_000, 2_000_000, 3_000_000, 10_000_000)  # ns: below, at and above a turn of the card (2 ms)
HOW = ("sync", "async")
MEMORY = 20 << 30
FIRST = 1  # second that is judged first: the one before holds the burst that the law allows, 25 ms of GPU time and one kernel


def measure(build: Path) -> Iterator[Figure]:
    excess = {
        limited: max(
            most_above(limits, seconds(build, limits, kernel, how, limited=limited))
            for limits in LIMITS
            for kernel in KERNELS
            for how in HOW
        )
        for limited in (True, False)
    }
    yield Figure(
        name="vcuda.share.start",
        value=excess[True] / 10,
        unit="points",
        bar=5,
        control=excess[False] / 10,
        method="a program starts beside a busy one: most that either is above its limit in any second after the first; "
        f"{len(LIMITS)} pairs of limits, kernels of 0.5 to 10 ms that vary by 5 %; control: limiter off",
    )


def most_above(limits: tuple[int, int], got: tuple[list[float], list[float]]) -> float:
    """Per mille of the card."""
    return max(max(shares[FIRST:]) - limit for limit, shares in zip(limits, got, strict=True))


def seconds(
    build: Path, limits: tuple[int, int], kernel_ns: int, how: str, *, limited: bool = True
) -> tuple[list[float], list[float]]:
    """Per mille of the card that neighbour and newcomer got, for each second after the newcomer's start."""
    with SimNode(
        build, "h100", "--time", "virtual", "--jitter-permille", "50", "--hold", "3" if limited else "2"
    ) as node:
        if not limited:
            return _together(node, bare(node), bare(node), kernel_ns, how)
        with Agent(node) as agent:
            neighbour, newcomer = (
                agent.claim(name, uuid=node.uuids[0], memory=MEMORY, compute=limit)
                for name, limit in zip(("neighbour", "newcomer"), limits, strict=True)
            )
            return _together(node, neighbour, newcomer, kernel_ns, how)


def _together(
    node: SimNode, neighbour: dict[str, str], newcomer: dict[str, str], kernel_ns: int, how: str
) -> tuple[list[float], list[float]]:
    words = ["busy", str(kernel_ns), how, str(ALONE + BESIDE + 2)]
    old = Programs(node, neighbour, words)

    def look(participant: Participant) -> tuple[list[float], list[float]]:
        participant.until(ALONE)
        new = Programs(node, newcomer, words)  # starts while the node's clock stands still
        new.go()
        try:
            both = [old.processes[0].pid, new.processes[0].pid]
            busy = [[node.busy(pid) for pid in both]]
            for second in range(1, BESIDE + 1):
                participant.until(ALONE + second)
                busy.append([node.busy(pid) for pid in both])
        finally:
            new.kill()
        gained = [[(b - a) / 1e6 for a, b in zip(*pair, strict=True)] for pair in pairwise(busy)]
        return [second[0] for second in gained], [second[1] for second in gained]

    try:
        return in_virtual_time(node, old.go, look)
    finally:
        old.kill()
