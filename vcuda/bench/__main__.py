"""`python -m vcuda.bench [NAME] [--out FILE] [--build DIR] [--library FILE]`: NAME is the beginning of the figures to measure.

`--library`, or TESSERA_BENCH_PEERS with several separated by ":", are shared objects of other limiters, measured beside ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from vcuda.bench import fairness, judge, launch, matrix, memory, start, steps, storm
from vcuda.bench.figure import Figure, report
from vcuda.bench.limiters import Limiter, Ours, foreign

PROJECT = Path(__file__).resolve().parents[2]
LONGEST_S = (
    150  # no further cell is begun after so long: `make bench` is for minutes, `make bench-matrix` for the whole
)


def share(build: Path, *, peers: list[Path]) -> Iterator[Figure]:
    """The short form of the matrix, under ours and then under each of the others."""
    with tempfile.TemporaryDirectory(prefix="tessera-bench-") as folder:
        out = Path(folder, "matrix.jsonl")
        rows = _cells(build, out, Ours())
        others = [_cells(build, out, foreign(peer)) for peer in peers]
        yield from judge.figures(rows, beside=others[0] if others else ())
        for other in others:
            yield from judge.theirs(rows, other)


def _cells(build: Path, out: Path, limiter: Limiter) -> list[matrix.Row]:
    return list(matrix.run(build, matrix.few_cells(), out, limiter, until=time.monotonic() + LONGEST_S))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vcuda.bench", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="beginning of a name, such as vcuda.memory")
    parser.add_argument("--out", type=Path, help="append one JSON object per figure to this file")
    parser.add_argument("--build", type=Path, default=PROJECT / "build" / "vcuda", help="folder with lib/ and sim/")
    parser.add_argument("--library", type=Path, action="append", default=[], help="another limiter's shared object")
    options = parser.parse_args()
    if not (options.build / "lib" / "libcuda.so.1").exists():
        print(f"There is no library in {options.build}/lib. Build it first: make vcuda", file=sys.stderr)
        return 2
    named = [Path(word) for word in os.environ.get("TESSERA_BENCH_PEERS", "").split(":") if word]
    peers = [path.resolve() for path in (*options.library, *named)]
    suites: dict[str, Callable[[Path], Iterator[Figure]]] = {
        "vcuda.launch": launch.measure,
        "vcuda.memory": memory.measure,
        "vcuda.start": storm.started,
        "vcuda.locks": storm.locked,
        "vcuda.share": partial(share, peers=peers),
        "vcuda.share.start": start.measure,
        "vcuda.step": steps.measure,
        "vcuda.fairness": fairness.measure,
    }
    held = True
    for prefix, suite in suites.items():
        if prefix.startswith(options.name) or options.name.startswith(prefix):
            for figure in suite(options.build.resolve()):
                report(figure, options.out)
                held &= figure.holds
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
