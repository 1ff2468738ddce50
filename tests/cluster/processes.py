"""Processes of a cluster: started so that they outlive the harness, found again by what their environment says.

No file of process numbers can go stale, since there is none: every process carries the folder of its cluster and the name of its
part, and so do its children, such as the shims that containerd leaves behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CLUSTER: Final = "TESSERA_CLUSTER_ROOT"
_PART: Final = "TESSERA_CLUSTER_PART"


@dataclass(frozen=True, slots=True, order=True)
class Process:
    started: int  # clock ticks since boot
    pid: int
    part: str
    command: str


def start(root: Path, part: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """In a session of its own, with its output in `logs/<part>.log`."""
    marked = os.environ | (environment or {}) | {_CLUSTER: str(root), _PART: part}
    with (root / "logs" / f"{part}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env=marked,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    process.returncode = 0  # it is meant to outlive us: no complaint about that when the object goes
    return process.pid


def of(root: Path) -> list[Process]:
    """All living processes of the cluster, the oldest first."""
    return sorted(process for cluster, process in _all() if cluster == str(root))


def main_of(root: Path, part: str) -> Process | None:
    """The part itself, not what it started."""
    return next(
        (process for process in of(root) if process.part == part and not process.command.startswith("containerd-shim")),
        None,
    )


def end(pids: Sequence[int], *, patience: float = 0) -> None:
    """Ask them to end, wait up to `patience` seconds, then kill; returns when they are gone."""
    if patience:
        _signal(pids, signal.SIGTERM)
        _wait(pids, patience)
    _signal(pids, signal.SIGKILL)
    if not _wait(pids, 20):
        raise TimeoutError(f"Killed processes are still there after 20 s: {[pid for pid in pids if alive(pid)]}")


def alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a dead child of ours stays in the table until somebody asks
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _wait(pids: Sequence[int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _all() -> Iterator[tuple[str, Process]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = dict(
                pair.partition("=")[::2]
                for pair in (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
            )
            if _CLUSTER not in environment:
                continue
            stat = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        command, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        if fields[0] != "Z":
            pid = int(entry.name)
            yield environment[_CLUSTER], Process(int(fields[19]), pid, environment.get(_PART, ""), command)
