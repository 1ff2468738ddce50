"""The figures of the kubernetes driver on a real control plane: `python -m tests.bench.kubernetes [NAME] --out build/bench.jsonl`."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.bench.kubernetes import scale, start
from vcuda.bench.figure import Figure, report

# One cluster each: the figures that come from it -> how they are measured.
_MEASUREMENTS: tuple[tuple[tuple[str, ...], Callable[[], Iterable[Figure]]], ...] = (
    (("kubernetes.start", "kubernetes.requests_per_start"), start.measure),
    (("kubernetes.accept",), scale.accept),
    (("kubernetes.creates",), scale.creates),
    (("kubernetes.restart",), scale.restart),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="kubernetes", help="only figures whose name begins so")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # take portal and cluster down, too
    with suppress(PermissionError):
        os.nice(-5)  # others work on this machine; the cluster and the portal inherit it
    kept = True
    for names, measure in _MEASUREMENTS:
        if any(name.startswith(options.name) or options.name.startswith(name) for name in names):
            for figure in measure():
                report(figure, options.out)
                kept = kept and figure.holds
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
