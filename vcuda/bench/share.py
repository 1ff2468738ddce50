"""Does a claim get its share of a card, no more and no less? Ten seconds of card time in the node's virtual time, with the real node agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from vcuda.bench.agent import Agent
from vcuda.bench.figure import Figure
from vcuda.bench.programs import Programs, bare, foreign
from vcuda.bench.simnode import SimNode, in_virtual_time

LIMITS = (100, 300, 600, 900)  # per mille
PROCESSES = (1, 4)
WORK = (
    ("100000", "sync"),
    ("1000000", "async"),
    ("100000,1000000,5000000", "async"),
)  # kernels in ns, and how they are launched
SETTLE, WINDOW = 4.0, 10.0  # seconds of card time
MEMORY = 20 << 30


def measure(build: Path) -> Iterator[Figure]:
    for count in PROCESSES:
        alone = {work: _share(build, work, count, limit=None) for work in WORK}
        for limit in LIMITS:
            got = {work: _share(build, work, count, limit=limit) for work in WORK}
            allowed = {work: min(float(limit), alone[work]) for work in WORK}
            worst = max(WORK, key=lambda work: abs(got[work] - allowed[work]))
            yield Figure(
                name=f"vcuda.share.error.{limit // 10}.p{count}",
                value=abs(got[worst] - allowed[worst]) / 10,
                unit="points",
                bar=5,
                control=max(abs(alone[work] - limit) for work in WORK) / 10,
                method=f"{count} process(es) at {limit // 10} %, worst of {len(WORK)} programs over {WINDOW:g} s of card time; "
                "control: limiter off",
            )
            yield Figure(
                name=f"vcuda.share.used.{limit // 10}.p{count}",
                value=min(got[work] / allowed[work] for work in WORK) * 100,
                unit="%",
                bar=90,
                least=True,
                method="used share of the allowed one, least of the same programs; allowed: the limit, or what the program takes unlimited",
            )


def _share(build: Path, work: tuple[str, str], count: int, *, limit: int | None) -> float:
    """Per mille of the card that the program got."""
    words = ["busy", *work, str(SETTLE + WINDOW + 5)]
    if limit is None:
        with SimNode(build, "h100", "--time", "virtual", "--hold", str(count + 1)) as node:
            return _watch(node, Programs(node, bare(node), words, count=count))
    with SimNode(build, "h100", "--time", "virtual", "--hold", str(count + 2)) as node, Agent(node) as agent:
        environment = agent.claim("bench", uuid=node.uuids[0], memory=MEMORY, compute=limit)
        return _watch(node, Programs(node, environment, words, count=count))


def _watch(node: SimNode, programs: Programs) -> float:
    try:
        return in_virtual_time(node, programs.go, lambda participant: participant.share(SETTLE, SETTLE + WINDOW))
    finally:
        programs.kill()


def beside(build: Path, library: Path) -> Iterator[Figure]:
    """Ours and another limiter in real time, one after the other on the same card: theirs keeps its own clock."""
    for limit, count in ((300, 1), (300, 4)):
        ours, theirs = (_real_error(build, limit, count, library=which) for which in (None, library))
        yield Figure(
            name=f"vcuda.share.beside.{limit // 10}.p{count}",
            value=ours,
            unit="points",
            bar=5,
            ratio_to=library.name,
            ratio=theirs / max(ours, 0.01),
            method=f"error over {WINDOW:g} s of real time, 1 ms kernels in a row; the other limiter erred by {theirs:.1f} points",
        )


def _real_error(build: Path, limit: int, count: int, *, library: Path | None) -> float:
    words = ["busy", "1000000", "async", str(SETTLE + WINDOW + 5)]
    with SimNode(build, "h100", "--time", "real") as node:
        if library is not None:
            share = _watch_real(
                node, Programs(node, foreign(node, library, memory=MEMORY, compute=limit), words, count=count)
            )
        else:
            with Agent(node) as agent:
                environment = agent.claim("bench", uuid=node.uuids[0], memory=MEMORY, compute=limit)
                share = _watch_real(node, Programs(node, environment, words, count=count))
    return abs(share - limit) / 10


def _watch_real(node: SimNode, programs: Programs) -> float:
    def books() -> tuple[int, int]:
        shown = node.show()
        return int(shown["now_ns"]), int(shown["cards"][0]["busy_ns"])

    try:
        programs.go()
        time.sleep(SETTLE)
        before = books()
        time.sleep(WINDOW)
        after = books()
    finally:
        programs.kill()
    return (after[1] - before[1]) * 1000 / (after[0] - before[0])
