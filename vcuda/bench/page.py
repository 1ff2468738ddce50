"""Renders docs/benchmarks/vcuda.md and its plots from build/matrix.jsonl; measures the few series that are drawn. `python -m vcuda.bench.page`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from vcuda.bench import steps
from vcuda.bench.limiters import Limiter, Off, Ours
from vcuda.bench.matrix import KERNELS, PROCESSES, PROJECT, Row, all_cells, read
from vcuda.bench.plot import lines
from vcuda.bench.scene import STEP, record

COLUMNS: Final = "10 s error, mean | worst | 1 s error, median | worst | used of allowed | keep all bars | off: 10 s error, least | mean"
FOLDER: Final = PROJECT / "docs" / "benchmarks"
DRAWN: Final = (
    ("arrives", 1_000_000, 30),
    ("leaves", 5_000_000, 30),
    ("limit", 1_000_000, 30),
    ("longer.beside", 1_000_000, 30),
    ("lender", 1_000_000, 60),
)
HEAD: Final = """# Shares on one card, measured

Rendered by `make bench-docs` from what `make bench-matrix` measured on the simulated driver in virtual time, with the node agent. **No figure
here comes from hardware.** What a cell is: one kind of program (kernels, waiting for each or not, 1 to 16 processes) at one limit beside one kind
of neighbour, after 4 s. *Error* is the worst sliding window in points of the card's time; *allowed* is the limit, or what the same programs get
with their own limiter off; *in scope* are cells in which the card could give 5 points more than the limit. *Off* is the control: the same programs
without their limiter, measured against the same limit. Bars: 2 points over 10 s, 5 over 1 s, 95 % of the allowed share; 1.1 x kernel / window where
a kernel is longer than that. What falls short, and the other limiters: [README.md](README.md).

"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vcuda.bench.page", description=__doc__)
    parser.add_argument("--matrix", type=Path, default=PROJECT / "build" / "matrix.jsonl")
    parser.add_argument("--build", type=Path, default=PROJECT / "build" / "vcuda")
    options = parser.parse_args()
    rows = list({(row.cell, row.limiter): row for row in read(options.matrix)}.values())
    if not rows:
        print(f"{options.matrix} has no cells yet: run make bench-matrix first. The page stays as it is.")
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "vcuda.md").write_text(HEAD + "\n".join(_page(rows)), encoding="utf-8")
    for name, text in _plots(options.build):
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(rows)} cells written to {(FOLDER / 'vcuda.md').relative_to(PROJECT)}")
    return 0


def _page(rows: Sequence[Row]) -> Iterator[str]:
    ours = [row for row in rows if row.limiter == "tessera"]
    scope = [row for row in ours if row.in_scope]
    keeping = sum(row.keeps for row in scope)
    measured = f"{len(ours)} of {len(all_cells())} cells were measured, in an order that was shuffled beforehand"
    yield f"{measured}; {len(scope)} are in scope, {keeping} keep all bars.\n"
    yield from _table("kernel", list(KERNELS), scope, lambda row: row.of.kernel)
    yield from _table("processes", list(PROCESSES), scope, lambda row: row.of.processes)
    yield from _table("neighbours", sorted({row.of.neighbours for row in scope}), scope, lambda row: row.of.neighbours)
    yield from _peers(rows)
    yield "## Cells that miss a bar\n"
    missing = [row for row in scope if not row.keeps]
    if missing:
        yield "| cell | got | allowed | 10 s | 1 s |\n|---|---|---|---|---|"
        yield from (
            f"| {row.cell} | {row.share:.1f} % | {row.allowed:.1f} % | {row.error10:.2f} | {row.error1:.2f} |"
            for row in missing
        )
    else:
        yield "None of those measured."
    yield "\n## Steps\n\nEvery 50 ms of card time the share of the 250 ms before. The dashed line is the moment of the change.\n"
    for name, kernel, limit in DRAWN:
        step = next(step for step in steps.STEPS if step.name == name)
        yield f"![{step.text}, kernels of {kernel / 1e6:g} ms at {limit} %](step-{name}.svg)\n"


def _table(title: str, values: Sequence[object], rows: Sequence[Row], of: Callable[[Row], object]) -> Iterator[str]:
    yield f"## By {title}\n"
    yield f"| {title} | cells | {COLUMNS} |\n|---|---|---|---|---|---|---|---|---|---|"
    for value in values:
        part = [row for row in rows if of(row) == value]
        if part:
            yield f"| {value} | {len(part)} | {_line(part)} |"
    yield ""


def _line(rows: Sequence[Row]) -> str:
    ten, one = [row.error10 for row in rows], sorted(row.error1 for row in rows)
    off, used = [row.control10 for row in rows], [row.used for row in rows]
    return (
        f"{sum(ten) / len(ten):.2f} | {max(ten):.2f} | {one[len(one) // 2]:.2f} | {one[-1]:.2f} | {min(used):.0f}–{max(used):.0f} % | "
        f"{100 * sum(row.keeps for row in rows) / len(rows):.0f} % | {min(off):.1f} | {sum(off) / len(off):.1f}"
    )


def _peers(rows: Sequence[Row]) -> Iterator[str]:
    ours = {row.cell: row for row in rows if row.limiter == "tessera" and row.in_scope}
    for name in sorted({row.limiter for row in rows} - {"tessera"}):
        theirs = [row for row in rows if row.limiter == name and row.cell in ours]
        if not theirs:
            continue
        same = [ours[row.cell] for row in theirs]
        yield f"## Beside {name}\n\nThe same {len(theirs)} cells, cards and virtual time.\n"
        yield f"| | {COLUMNS} |\n|---|---|---|---|---|---|---|---|---|"
        yield f"| Tessera | {_line(same)} |\n| {name} | {_line(theirs)} |\n"


def _plots(build: Path) -> Iterator[tuple[str, str]]:
    for name, kernel, limit in DRAWN:
        step = next(step for step in steps.STEPS if step.name == name)
        drawn = {
            "Tessera": _series(build, step, kernel, limit, Ours()),
            "limiter off": _series(build, step, kernel, limit, Off()),
        }
        title = f"{step.text}: kernels of {kernel / 1e6:g} ms at {limit} %"
        yield (
            f"step-{name}.svg",
            lines(title, drawn, across="seconds of card time", up="% of the card", top=100, mark=steps.AT),
        )


def _series(build: Path, step: steps.Step, kernel: int, limit: int, limiter: Limiter) -> list[tuple[float, float]]:
    tenants = step.tenants(kernel, limit)
    series = record(build, tenants, steps.AT + steps.AFTER, acts=step.acts(kernel, limit), limiter=limiter)["own"]
    return [(index * STEP + 0.25, share) for index, share in enumerate(series.shares(0.25))]


if __name__ == "__main__":
    sys.exit(main())
