"""Renders build/bench.jsonl: a table on the terminal (--print) or docs/benchmarks.md."""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
FIGURES = PROJECT / "build" / "bench.jsonl"
PAGE = PROJECT / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

Rendered by `make bench-docs` from what `make bench` measured. Every figure has its bar and, where a mechanism is judged, a *control*: the
same measurement with the mechanism off, which must miss the bar. Ratios were measured side by side in one run. Trust ratios and errors,
not absolute times: this was {machine}.

The GPU is the simulated driver (`vcuda/sim`); no figure here comes from hardware. More of shares, with plots:
[benchmarks/vcuda.md](benchmarks/vcuda.md).

| figure | value | bar | holds | control | beside | method |
|---|---|---|---|---|---|---|
"""


def figures() -> list[dict[str, Any]]:
    """The last line of each name counts."""
    latest: dict[str, dict[str, Any]] = {}
    for line in FIGURES.read_text(encoding="utf-8").splitlines():
        figure = json.loads(line)
        latest[figure["name"]] = figure
    return list(latest.values())


def number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "–" if value is None else str(value)


def row(figure: dict[str, Any]) -> list[str]:
    beside = f"{number(figure.get('ratio'))} × {figure['ratio_to']}" if figure.get("ratio_to") else "–"
    return [
        f"`{figure['name']}`",
        f"{number(figure['value'])} {figure['unit']}".strip(),
        number(figure.get("bar")),
        "yes" if figure.get("holds") else "**no**",
        number(figure.get("control")),
        beside,
        figure.get("method", ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", dest="to_terminal")
    found = figures()
    if parser.parse_args().to_terminal:
        for figure in found:
            mark = "ok  " if figure.get("holds") else "MISS"
            print(mark, "  ".join(row(figure)[:6]))
        return
    machine = f"a shared virtual machine with {os.cpu_count()} cores, {platform.system()} on {platform.machine()}"
    rows = "".join("| " + " | ".join(row(figure)) + " |\n" for figure in found)
    PAGE.write_text(INTRODUCTION.format(machine=machine) + rows, encoding="utf-8")
    print(f"{len(found)} figures written to {PAGE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
