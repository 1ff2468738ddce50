"""`python -m vcuda.bench [NAME] [--out FILE] [--build DIR] [--library FILE]`: NAME is the beginning of the figures to measure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from vcuda.bench import launch, memory, share, start
from vcuda.bench.figure import Figure, report

PROJECT = Path(__file__).resolve().parents[2]
SUITES: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "vcuda.launch": launch.measure,
    "vcuda.memory": memory.measure,
    "vcuda.share": share.measure,
    "vcuda.share.start": start.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vcuda.bench", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="beginning of a name, such as vcuda.memory")
    parser.add_argument("--out", type=Path, help="append one JSON object per figure to this file")
    parser.add_argument("--build", type=Path, default=PROJECT / "build" / "vcuda", help="folder with lib/ and sim/")
    parser.add_argument(
        "--library", type=Path, help="another limiter's shared object, to be measured beside ours in real time"
    )
    options = parser.parse_args()
    if not (options.build / "lib" / "libcuda.so.1").exists():
        print(f"There is no library in {options.build}/lib. Build it first: make vcuda", file=sys.stderr)
        return 2
    held = True
    for prefix, suite in SUITES.items():
        if prefix.startswith(options.name) or options.name.startswith(prefix):
            for figure in suite(options.build):
                report(figure, options.out)
                held &= figure.holds
    if options.library is not None:
        for figure in share.beside(options.build, options.library.resolve()):
            report(figure, options.out)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
