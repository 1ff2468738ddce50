"""The accuracy matrix: does every kind of program get its share beside every kind of neighbour? `python -m vcuda.bench.matrix`.

A cell is measured in virtual time, with the node agent, and beside it the same programs with their own limiter off: that tells what the
card could give them, and is the control. Cells come in an order that is shuffled once, so that a run which was stopped is a sample of the
whole; what stands in the file already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from vcuda.bench.limiters import Limiter, Ours, foreign
from vcuda.bench.scene import Tenant, record
from vcuda.bench.windows import worst_error

PROJECT: Final = Path(__file__).resolve().parents[2]
KERNELS: Final = {  # ns
    "10 us": "10000",
    "100 us": "100000",
    "1 ms": "1000000",
    "5 ms": "5000000",
    "50 ms": "50000000",
    "500 ms": "500000000",
    "mix": "10000,100000,1000000,20000000",
}
LONGEST_MS: Final = {"10 us": 0.01, "100 us": 0.1, "1 ms": 1, "5 ms": 5, "50 ms": 50, "500 ms": 500, "mix": 20}
HOW: Final = ("sync", "async")
LIMITS: Final = (10, 30, 50, 90)  # per cent
PROCESSES: Final = (1, 2, 8, 16)
NEIGHBOURS: Final = ("none", "unlimited", "limited", "three unequal", "three unlimited")
NEIGHBOUR_KERNEL: Final = "1000000"  # ns
SETTLE: Final = 4.0  # seconds after the start, and for 500 ms kernels 6 s / limit more: vcuda/README.md, Bars
LOOK: Final = 13.0  # seconds that are judged; twice as long for 500 ms kernels
ROOM: Final = 5  # points that the card must be able to give above the limit for a cell to be in scope


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    kernel: str
    how: str
    limit: int
    processes: int
    neighbours: str

    @property
    def key(self) -> str:
        return f"{self.kernel}/{self.how}/{self.limit}/{self.processes}/{self.neighbours}"

    @property
    def surroundings(self) -> tuple[object, ...]:
        """Cells that differ in nothing else have one control."""
        return (
            self.kernel,
            self.how,
            self.processes,
            *(tenant.share for tenant in self.others()),
            self.neighbours,
            self.settle,
        )

    @property
    def settle(self) -> float:
        return SETTLE + (600 / self.limit if self.kernel == "500 ms" else 0)

    @property
    def look(self) -> float:
        return LOOK * (2 if self.kernel == "500 ms" else 1)

    def own(self, *, limited: bool) -> Tenant:
        share = self.limit * 10 if limited else 0
        return Tenant(name="own", kernels=KERNELS[self.kernel], how=self.how, count=self.processes, share=share)

    def others(self) -> list[Tenant]:
        """Neighbours of one process. Shares that do not fit beside the limit (95 % together) are smaller there."""
        shares = {
            "none": [],
            "unlimited": [0],
            "limited": [300 if self.limit <= 50 else 50],
            "three unequal": [150, 100, 50] if self.limit <= 50 else [25, 15, 10],
            "three unlimited": [0, 0, 0],
        }[self.neighbours]
        return [Tenant(name=f"n{i}", kernels=NEIGHBOUR_KERNEL, share=share) for i, share in enumerate(shares)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell under one limiter. Per cent of the card, points."""

    cell: str
    limiter: str
    share: float
    allowed: float
    error10: float
    error1: float
    seconds: float  # of real time
    off: float = 0.0  # what the same programs get without their limiter
    control10: float = 0.0
    control1: float = 0.0

    @property
    def of(self) -> Cell:
        kernel, how, limit, processes, neighbours = self.cell.split("/")
        return Cell(kernel, how, int(limit), int(processes), neighbours)

    @property
    def in_scope(self) -> bool:
        return self.off >= self.of.limit + ROOM

    @property
    def used(self) -> float:
        """Per cent of the allowed share."""
        return self.share / self.allowed * 100 if self.allowed else 100.0

    def bars(self) -> tuple[float, float, float]:
        """Most points of error over 10 s and 1 s, and least used share: vcuda/README.md, Bars. A window must hold whole kernels."""
        ms = LONGEST_MS[self.of.kernel]
        return max(2.0, 1.1 * ms / 100), max(5.0, 1.1 * ms / 10), 92.0 if ms >= 500 else 95.0

    @property
    def keeps(self) -> bool:
        ten, one, used = self.bars()
        return self.error10 <= ten and self.error1 <= one and self.used >= used


def all_cells() -> list[Cell]:
    cells = [Cell(*values) for values in product(KERNELS, HOW, LIMITS, PROCESSES, NEIGHBOURS)]
    random.Random(1120).shuffle(cells)  # noqa: S311  (an order)
    return cells


def few_cells() -> list[Cell]:
    """Every value of every dimension, in pairs that differ: a stand-in for the whole where there are minutes."""
    return [
        Cell("10 us", "async", 30, 1, "none"),
        Cell("10 us", "sync", 10, 2, "unlimited"),
        Cell("100 us", "sync", 50, 1, "none"),
        Cell("100 us", "async", 30, 8, "unlimited"),
        Cell("100 us", "async", 10, 2, "three unequal"),
        Cell("1 ms", "async", 90, 1, "none"),
        Cell("1 ms", "sync", 30, 2, "limited"),
        Cell("1 ms", "async", 50, 16, "three unlimited"),
        Cell("5 ms", "async", 10, 1, "unlimited"),
        Cell("5 ms", "sync", 30, 8, "three unequal"),
        Cell("5 ms", "async", 50, 2, "limited"),
        Cell("50 ms", "async", 30, 1, "none"),
        Cell("50 ms", "sync", 10, 2, "three unlimited"),
        Cell("50 ms", "async", 50, 8, "limited"),
        Cell("mix", "async", 30, 1, "unlimited"),
        Cell("mix", "sync", 10, 8, "none"),
        Cell("mix", "async", 90, 2, "limited"),
        Cell("500 ms", "sync", 30, 1, "none"),
    ]


class Measurer:
    """Measures cells, and each control once."""

    def __init__(self, build: Path, limiter: Limiter) -> None:
        self._build = build
        self._limiter = limiter
        self._controls: dict[tuple[object, ...], tuple[float, Any]] = {}

    def measure(self, cell: Cell) -> Row:
        begun = time.monotonic()
        off, off_series = self._control(cell)
        series = record(
            self._build, [cell.own(limited=True), *cell.others()], cell.settle + cell.look, limiter=self._limiter
        )["own"]
        allowed = min(float(cell.limit), off)
        return Row(
            cell=cell.key,
            limiter=self._limiter.name,
            share=series.mean(cell.settle),
            allowed=allowed,
            error10=worst_error(series.shares(10, cell.settle), allowed),
            error1=worst_error(series.shares(1, cell.settle), allowed),
            seconds=time.monotonic() - begun,
            off=off,
            control10=worst_error(off_series.shares(10, cell.settle), cell.limit),
            control1=worst_error(off_series.shares(1, cell.settle), cell.limit),
        )

    def _control(self, cell: Cell) -> tuple[float, Any]:
        if cell.surroundings not in self._controls:
            series = record(
                self._build, [cell.own(limited=False), *cell.others()], cell.settle + cell.look, limiter=self._limiter
            )["own"]
            self._controls[cell.surroundings] = (series.mean(cell.settle), series)
        return self._controls[cell.surroundings]


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def run(build: Path, cells: Sequence[Cell], out: Path, limiter: Limiter, *, until: float) -> Iterator[Row]:
    """Measure what is not in the file yet, and append it. `until`: monotonic seconds after which no further cell is begun."""
    done = {(row.cell, row.limiter) for row in read(out)}
    measurer = Measurer(build, limiter)
    out.parent.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        if (cell.key, limiter.name) in done:
            continue
        if time.monotonic() > until:
            return
        try:
            row = measurer.measure(cell)
        except RuntimeError as error:
            if limiter.name == Ours.name:
                raise
            print(f"{limiter.name} did not run {cell.key}: {error}", file=sys.stderr)
            continue
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        yield row


def part_of(cells: Sequence[Cell], part: int, jobs: int) -> list[Cell]:
    """Every so-many-th of the surroundings, so that what has one control stays together."""
    places = {surroundings: place for place, surroundings in enumerate(dict.fromkeys(c.surroundings for c in cells))}
    return [cell for cell in cells if places[cell.surroundings] % jobs == part]


def in_parts(jobs: int) -> int:
    """This command again, for each part. They append lines to the same file."""
    words = [sys.executable, "-m", "vcuda.bench.matrix", *sys.argv[1:]]
    running = [subprocess.Popen([*words, "--part", str(part)]) for part in range(jobs)]
    return max(process.wait() for process in running)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vcuda.bench.matrix", description=__doc__)
    parser.add_argument("--out", type=Path, default=PROJECT / "build" / "matrix.jsonl")
    parser.add_argument("--build", type=Path, default=PROJECT / "build" / "vcuda")
    parser.add_argument("--library", type=Path, help="another limiter's shared object, measured in place of ours")
    parser.add_argument("--few", action="store_true", help="the short form only")
    parser.add_argument("--minutes", type=float, default=10_000, help="begin no cell after so long")
    parser.add_argument("--kernels", default="", help="only cells of these, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="so many at the same time: virtual time does not mind")
    parser.add_argument("--part", type=int, help="of the jobs, only this one, from 0")
    options = parser.parse_args()
    if options.jobs > 1 and options.part is None:
        return in_parts(options.jobs)
    limiter: Limiter = foreign(options.library.resolve()) if options.library else Ours()
    cells = few_cells() if options.few else all_cells()
    if options.kernels:
        cells = [cell for cell in cells if cell.kernel in options.kernels.split(",")]
    if options.part is not None:
        cells = part_of(cells, options.part, options.jobs)
    for row in run(options.build.resolve(), cells, options.out, limiter, until=time.monotonic() + options.minutes * 60):
        mark = "    " if not row.in_scope else "ok  " if row.keeps else "MISS"
        print(
            f"{mark} {row.cell:42} {row.share:6.2f} of {row.allowed:6.2f} %  10 s {row.error10:5.2f} ({row.control10:5.2f})"
            f"  1 s {row.error1:5.2f}  {row.seconds:.1f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
