"""Control groups of runs, of either version, wherever this machine permits them. Where it does not, runs go without.

On cgroup v2 one folder limits and tracks. On v1 (and mixed) machines memory and CPU have a folder each, and the folder that
tracks lies in the v2 tree, if there is one.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

_PERIOD = 100_000  # µs; the kernel's usual period for CPU quotas
_V1 = ("memory", "cpu")
_LIMITS_V2 = ("memory", "cpu", "pids")
_TASKS = 8192  # processes and threads of one run; far above any honest use, far below what hurts the machine


def trees(mounts: str = "/proc/mounts") -> dict[str, str]:
    """Where the hierarchies are mounted: "v2", "memory", "cpu"."""
    found: dict[str, str] = {}
    with open(mounts) as file:
        for line in file:
            _, where, kind, options = line.split()[:4]
            if kind == "cgroup2":
                found.setdefault("v2", where)
            elif kind == "cgroup":
                for name in set(_V1) & set(options.split(",")):
                    found.setdefault(name, where)
    return found


def own_path(controller: str, table: str = "/proc/self/cgroup") -> str:
    """This process's own group in a hierarchy; "" names the v2 tree."""
    with open(table) as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            if controller in names.split(","):
                return path
    return "/"


def bases(key: str, *, make: bool = True) -> list[str]:
    """Folders below which runs get theirs, made now unless said otherwise; none where nothing is permitted.

    `key` tells portals of one machine apart.
    """
    found = trees()
    wanted = [found[name] + own_path(name) for name in _V1 if name in found]
    if "v2" in found:
        # As root beside the services, so that restarting the portal's own service does not sweep the runs away with it.
        wanted.append(found["v2"] if os.geteuid() == 0 else found["v2"] + own_path(""))
    made = []
    for parent in wanted:
        base = os.path.join(parent, f"tessera-{key}")
        if make:
            with suppress(OSError):
                os.makedirs(base, exist_ok=True)
                _delegate(parent, base)
        if os.path.isdir(base):
            made.append(base)
    return made


def _delegate(parent: str, base: str) -> None:
    """Let the groups below `base` be limited. Not everywhere permitted; then they only track."""
    for folder in (parent, base):
        for name in _LIMITS_V2:
            _write(os.path.join(folder, "cgroup.subtree_control"), f"+{name}")


def make(base_folders: Iterable[str], name: str, *, cpu_milli: int, ram: int) -> list[str]:
    """The groups of one run, with its limits (0: none). Those that cannot be made are left out."""
    quota = max(1000, cpu_milli * _PERIOD // 1000)
    limits = {
        "memory.max": ram,
        "memory.limit_in_bytes": ram,
        "cpu.max": f"{quota} {_PERIOD}" if cpu_milli else 0,
        "cpu.cfs_quota_us": quota if cpu_milli else 0,
        "pids.max": _TASKS,
    }
    made = []
    for base in base_folders:
        group = os.path.join(base, name)
        try:
            os.makedirs(group, exist_ok=True)
        except OSError:
            continue
        for file, value in limits.items():
            if value:
                _write(os.path.join(group, file), str(value))
        made.append(group)
    return made


def join(groups: Iterable[str]) -> None:
    """Put the calling process, and so all that it will start, into these groups."""
    for group in groups:
        _write(os.path.join(group, "cgroup.procs"), "0")


def unified(groups: Iterable[str]) -> str:
    """The one of these that lies in the tree of version 2, where all processes of the run are; empty where there is none."""
    return next((group for group in groups if os.path.exists(os.path.join(group, "cgroup.controllers"))), "")


def warm() -> None:
    """Join the group that we are in. The first who joins a group after a quiet time waits 5 to 30 ms for all processors of the
    machine to notice (RCU); whoever joins one in the next moments does not. As root only; elsewhere nothing is gained."""
    if os.geteuid() == 0:
        for name, where in list(trees().items())[:1]:  # one lock serves all hierarchies
            _write(where + os.path.join(own_path("" if name == "v2" else name), "cgroup.procs"), "0")


def out_of_memory_kills(groups: Iterable[str]) -> int:
    """How often the kernel killed something of this run for lack of the run's own memory."""
    count = 0
    for group in groups:
        for file in ("memory.events", "memory.oom_control"):
            for line in _read(os.path.join(group, file)).splitlines():
                if line.startswith("oom_kill "):
                    count += int(line.split()[1])
    return count


def limiting(base_folders: Iterable[str]) -> bool:
    """Whether limits of RAM are kept in groups below these."""
    return any(_limits_memory(base) for base in base_folders)


def _limits_memory(base: str) -> bool:
    """On v2 the base hands the controller down; on v1 the folder itself is of that controller."""
    handed_down = _read(os.path.join(base, "cgroup.subtree_control")).split()
    return "memory" in handed_down or os.path.exists(os.path.join(base, "memory.limit_in_bytes"))


def remove(groups: Iterable[str]) -> None:
    """Missing is success; one with members stays (the kernel refuses)."""
    for group in groups:
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue


def remove_empty(base_folders: Iterable[str]) -> None:
    """Those in which no run is left."""
    for base in base_folders:
        with suppress(OSError):
            os.rmdir(base)


def _write(path: str, value: str) -> bool:
    if not os.path.exists(path):  # never create: on some mounts that would make an ordinary file
        return False
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
