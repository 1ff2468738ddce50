"""`make gpu-check`: the library before a real driver, held to what the simulated one taught us. `--simulated` tries the check itself.

Three things are checked on the first card: a tenant's calls get the answers that they get on the simulator (the two call logs are compared line by
line), the memory limit and what a program is told of it hold, and a program gets its share of the card's time. Where there is no NVIDIA
driver, it says so and is content. It takes 3 GiB of the card for a moment and its time for half a minute; run it on a card that nobody uses.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vcuda.bench.simnode import SimNode
from vcuda.node.layout import COMPUTE_LIMITED, MEMORY_LIMITED, DeviceRecord, create_files

PROJECT: Final = Path(__file__).resolve().parents[2]
CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
MIB: Final = 1 << 20
LIMIT: Final = 3 << 30  # bytes
SHARE: Final = 300  # per mille
SECONDS: Final = 12  # of launching; the law's burst is 25 ms of them
KERNEL_NS: Final = 2_000_000
# What a tenant does, and which of the numbers in the answer both drivers must agree on (None: all).
CALLS: Final[Sequence[tuple[str, int | None]]] = (
    ("init 0", None),
    ("total 0", None),
    (f"alloc 0 {512 * MIB}", None),
    (f"alloc 1 {4096 * MIB}", None),  # above the limit
    ("free 0", None),
    ("free 0", None),  # twice
    (f"managed 1 {64 * MIB}", None),
    ("free 1", None),
    ("pitch 2 1000 1000", None),
    ("free 2", None),
    (f"async 3 {32 * MIB}", None),
    ("freeasync 3", None),
    ("sync", None),
    ("trim", None),
    ("array 4 1024 1024", None),
    ("freearray 4", None),
    (f"vmm 5 0 {64 * MIB}", None),
    ("vmmrelease 5", None),
    (f"vmm 5 0 {8192 * MIB}", None),  # above the limit
    ("info", 1),  # how much is free depends on what a context costs
    ("release 0", None),
)


@dataclass(frozen=True, slots=True)
class Driver:
    """Where a driver's two libraries lie, the first card's UUID, and what its programs need around them."""

    name: str
    files: Mapping[str, Path]
    uuid: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    holds: bool
    seen: str


def real_driver() -> Driver | None:
    """Asked in a process of its own: a driver, once loaded, stays."""
    script = (
        "import ctypes, pathlib, pynvml\n"
        "from vcuda.node.nvidia import CUDA, NVML, system_driver\n"
        f"found = system_driver(pathlib.Path({str(PROJECT / 'build/vcuda/lib')!r}))\n"
        "pynvml.nvmlInit()\n"
        "print(found[1][CUDA], found[1][NVML], pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)), sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False)
    words = done.stdout.split("\n")
    if done.returncode or len(words) < 3:
        return None
    return Driver(
        "the machine's driver",
        {CUDA: Path(words[0]), NVML: Path(words[1])},
        words[2],
        {"CUDA_VISIBLE_DEVICES": words[2]},
    )


def simulated(node: SimNode) -> Driver:
    files = {name: node.build / "sim" / name for name in (CUDA, NVML)}
    return Driver("the simulated driver", files, node.uuids[0], {"TESSERA_SIM_NODE": str(node.path)})


def surroundings(driver: Driver, folder: Path, build: Path, *, limited: bool) -> dict[str, str]:
    """The environment of a program in a claim of LIMIT and SHARE, or (not limited) before the driver alone."""
    library = folder / ("limited" if limited else "bare")
    (library / "driver").mkdir(parents=True)
    for name, path in driver.files.items():
        (library / "driver" / name).symlink_to(path.resolve())
        (library / name).symlink_to(build / "lib" / name if limited else path.resolve())
    if limited:
        (library / "claim").mkdir()
        record = DeviceRecord(
            uuid=driver.uuid,
            flags=MEMORY_LIMITED | COMPUTE_LIMITED,
            memory_limit=LIMIT,
            guarantee=SHARE,
            ceiling=SHARE,
            share=SHARE,
        )
        create_files(library / "claim", tag=b"gpu-check".ljust(16, b"\0"), records=[record])
    return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library), **driver.environment}


def call_log(environment: Mapping[str, str], build: Path) -> list[str]:
    """One line per call: what was asked, and the numbers that must agree."""
    script = "".join(f"{call}\n" for call, _ in CALLS)
    program = str(build / "lib" / "tests" / "probe")
    done = subprocess.run([program], env=dict(environment), input=script, capture_output=True, text=True, check=True)
    return [
        f"{call}: {' '.join(_told(answer, kept))}"
        for (call, kept), answer in zip(CALLS, done.stdout.splitlines(), strict=True)
    ]


def _told(answer: str, kept: int | None) -> list[str]:
    words = answer.split()
    return words if kept is None else [words[0], *words[2:]]


def share(environment: Mapping[str, str], build: Path, seconds: int) -> float:
    """Per mille of the time that a program's kernels ran, by their own length: it waits for each one."""
    program = [str(build / "lib" / "tests" / "busy"), str(KERNEL_NS), "sync", str(seconds)]
    done = subprocess.run(program, env=dict(environment), input="go\n", capture_output=True, text=True, check=True)
    launches, first, last = (int(word) for word in done.stdout.splitlines()[-1].split())
    return launches * KERNEL_NS * 1000 / (last - first)


def checks(driver: Driver, build: Path, seconds: int) -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="tessera-gpu-") as folder, SimNode(build, "h200") as node:
        limited = surroundings(driver, Path(folder, "real"), build, limited=True)
        bare = surroundings(driver, Path(folder, "real"), build, limited=False)
        model = surroundings(simulated(node), Path(folder, "model"), build, limited=True)
        here, there = call_log(limited, build), call_log(model, build)
        differing = [
            f"{ours!r} here, {theirs!r} simulated" for ours, theirs in zip(here, there, strict=True) if ours != theirs
        ]
        yield Check(
            "calls are answered as on the simulator", not differing, "; ".join(differing) or f"{len(here)} calls"
        )
        told = dict(line.split(": ", 1) for line in here)
        yield Check(
            "a program is told its limit",
            told["total 0"] == f"0 {LIMIT}" and told["info"] == f"0 {LIMIT}",
            told["info"],
        )
        yield Check(
            "what is above the limit is refused", told[f"alloc 1 {4096 * MIB}"] == "2", told[f"alloc 1 {4096 * MIB}"]
        )
        without = dict(line.split(": ", 1) for line in call_log(bare, build))
        yield Check(
            "without the library it is given (control)",
            without[f"alloc 1 {4096 * MIB}"] == "0",
            without[f"alloc 1 {4096 * MIB}"],
        )
        got, control = share(limited, build, seconds), share(bare, build, seconds)
        yield Check(f"a program gets {SHARE / 10:g} %", abs(got - SHARE) <= 20, f"{got / 10:.1f} %")
        yield Check("without the library it takes the card (control)", control > 2 * SHARE, f"{control / 10:.1f} %")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vcuda.bench.gpucheck", description=__doc__)
    parser.add_argument("--build", type=Path, default=PROJECT / "build" / "vcuda")
    parser.add_argument(
        "--simulated", action="store_true", help="check a simulated card in real time, to try the check itself"
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help="how long each program launches")
    options = parser.parse_args()
    if options.simulated:
        with SimNode(options.build, "h200") as node:
            return run(simulated(node), options.build, options.seconds)
    driver = real_driver()
    if driver is None:
        print(
            "This machine has no NVIDIA driver with a card: nothing to check here. The same checks run on the simulated driver in `make test`."
        )
        return 0
    return run(driver, options.build, options.seconds)


def run(driver: Driver, build: Path, seconds: int) -> int:
    print(f"Checking the limiting library before {driver.name}, card {driver.uuid}:")
    failed = 0
    for check in checks(driver, build, seconds):
        print(f"{'ok  ' if check.holds else 'FAIL'} {check.name}: {check.seen}", flush=True)
        failed += not check.holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
