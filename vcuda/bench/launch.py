"""What the library adds to one launch when the limit is not reached: against a driver whose launches do nothing at all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vcuda.bench.figure import Figure
from vcuda.node.layout import MEMORY_LIMITED, DeviceRecord, create_files

ROUNDS, LAUNCHES = 9, 200_000
UUID = "GPU-00000000-0000-0000-0000-00000000002a"  # the card of programs/nulldriver.c


def measure(build: Path) -> Iterator[Figure]:
    folder = _folder(build)
    with_library, without = [], []
    for _ in range(ROUNDS):  # interleaved, so that a change of the machine's pace meets both
        with_library.append(_percentiles(build, folder))
        without.append(_percentiles(build, folder / "driver"))
    for index, (name, bar) in enumerate((("p50", 100), ("p99", 1000))):
        added = min(row[index] for row in with_library) - min(row[index] for row in without)
        yield Figure(
            name=f"vcuda.launch.added.{name}",
            value=added,
            unit="ns",
            bar=bar,
            method=f"{name} of {LAUNCHES} launches of one kernel with and without the library, driver without any work; "
            f"least of {ROUNDS} interleaved runs each, as others only add",
        )


def _folder(build: Path) -> Path:
    """A claim in front of the null driver, laid out as for a program."""
    folder = build / "bench-launch"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "driver").mkdir(parents=True)
    (folder / "claim").mkdir()
    (folder / "libcuda.so.1").symlink_to(build / "lib" / "libcuda.so.1")
    (folder / "driver" / "libcuda.so.1").symlink_to(build / "lib" / "tests" / "nulldriver" / "libcuda.so.1")
    compute_limited = 2
    record = DeviceRecord(
        uuid=UUID,
        flags=MEMORY_LIMITED | compute_limited,
        memory_limit=8 << 30,
        overhead_bytes=1 << 20,
        guarantee=900,
        ceiling=900,
        share=900,
    )
    create_files(folder / "claim", tag=b"launch".ljust(16, b"\0"), records=[record])
    return folder


def _percentiles(build: Path, folder: Path) -> tuple[int, int]:
    """p50 and p99 in ns."""
    command = [str(build / "lib" / "tests" / "launches"), str(LAUNCHES)]
    done = subprocess.run(command, env={"LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True, check=True)
    p50, p99 = (int(word) for word in done.stdout.split())
    return p50, p99
