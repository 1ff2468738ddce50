"""Which processes belong to a run, and signals to all of them. A process id alone proves nothing: it goes with its start time."""

import os
import signal
from collections.abc import Iterable, Sequence

MARKER = "TESSERA_RUN"  # in the environment of every process of a run; inherited by what it starts


def stat(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start time (clock ticks since boot), or None when there is no such process any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[1]), int(fields[19])


def lives(pid: int, started: int | None = None) -> bool:
    """Whether it runs: not gone, not a zombie, and not another one that was given the same number."""
    seen = stat(pid)
    return seen is not None and seen[0] not in "ZX" and started in (None, seen[2])


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> set[int]:
    """Everything below `root`, however many sessions and daemons lie between."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        seen = stat(pid)
        if seen is not None and seen[0] not in "ZX":
            children.setdefault(seen[1], []).append(pid)
    found: set[int] = set()
    edge = [root]
    while edge:
        below = children.get(edge.pop(), [])
        edge += [pid for pid in below if pid not in found]
        found.update(below)
    return found


def in_groups(groups: Iterable[str]) -> set[int]:
    """Members of these control groups and of all groups below."""
    found: set[int] = set()
    for top in groups:
        for folder, _, _ in os.walk(top):
            try:
                with open(os.path.join(folder, "cgroup.procs")) as file:
                    found.update(int(line) for line in file)
            except OSError:
                continue
    return {pid for pid in found if lives(pid)}


def marked(marker: str) -> set[int]:
    """Those that carry the run's mark. A process may drop it; then its control group or its parent still tells."""
    wanted = f"{MARKER}={marker}".encode()
    found: set[int] = set()
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            continue
    return {pid for pid in found if lives(pid)}


def of_run(marker: str, groups: Sequence[str]) -> set[int]:
    """All processes of a run that can be found without being their parent, and all below those."""
    found = marked(marker) | in_groups(groups)
    for pid in list(found):
        found |= descendants(pid)
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Stopped ones are woken, otherwise they would not notice."""
    for pid in pids:
        for each in (number, signal.SIGCONT) if number == signal.SIGTERM else (number,):
            try:
                os.kill(pid, each)
            except OSError:  # gone meanwhile
                break


def kill_groups(groups: Iterable[str]) -> None:
    """Where the kernel can kill a whole group in one step (cgroup v2), no fork escapes."""
    for group in groups:
        try:
            with open(os.path.join(group, "cgroup.kill"), "w") as file:
                file.write("1")
        except OSError:
            continue
