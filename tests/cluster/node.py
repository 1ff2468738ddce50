"""The node's place on the machine: mounts of its own, a bridge, control groups. Makes them and takes all of them away again."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.cluster import processes
from tests.cluster.layout import NODE_FOLDERS, Layout
from tests.cluster.machine import Missing, control_groups

ANCHOR: Final = "mounts"  # the process that keeps the node's mounts; with the last process of the node they are gone
_MADE: Final = "made-folders"  # mount points that were not on the machine before


def make(layout: Layout) -> None:
    _make_bridge(layout)
    for group in _groups(layout):
        if not group.exists():
            group.mkdir()
            _inherit_processors(group)
    if processes.main_of(layout.root, ANCHOR) is None:
        _make_mounts(layout)


def inside(layout: Layout, command: Sequence[str]) -> list[str]:
    """The command as it runs among the node's mounts."""
    anchor = processes.main_of(layout.root, ANCHOR)
    if anchor is None:
        raise RuntimeError("The node's mounts are gone: was the cluster stopped?")
    return ["nsenter", f"--mount=/proc/{anchor.pid}/ns/mnt", "--", *command]


def remove(layout: Layout) -> None:
    """Everything on the node ends at once; so do its mounts, since they were nobody else's."""
    processes.end([process.pid for process in processes.of(layout.root)])  # first, so that nobody starts pods anew
    _end_pods(layout)
    for group in _groups(layout):
        _remove_group(group)
    if owner(layout.bridge) == str(layout.root):
        _remove_bridge(layout.bridge)
    if not any(other != layout.root and other.is_dir() for other in layout.root.parent.iterdir()):
        _remove_mount_points(layout.root.parent)


def owner(bridge: str) -> str | None:
    """Which cluster's folder a bridge belongs to; None when there is no such bridge."""
    try:
        return Path("/sys/class/net", bridge, "ifalias").read_text().strip()
    except FileNotFoundError:
        return None


def _make_bridge(layout: Layout) -> None:
    holder = owner(layout.bridge)
    if holder not in (None, str(layout.root)):
        raise Missing(f"The bridge {layout.bridge} belongs to {holder or 'somebody else'}. Stop that cluster first.")
    if holder is None:
        _run("ip", "link", "add", layout.bridge, "type", "bridge")
    _run("ip", "link", "set", layout.bridge, "alias", str(layout.root), "up")
    for address in (f"{layout.node_ip}/24", f"{layout.service_ip}/32"):
        _run("ip", "address", "replace", address, "dev", layout.bridge)


def _remove_bridge(bridge: str) -> None:
    """And the cables of pods in it: the kernel takes them away some time after their last process."""
    for cable in Path("/sys/class/net", bridge, "brif").iterdir():
        with suppress(RuntimeError):  # gone meanwhile
            _run("ip", "link", "delete", cable.name)
    _run("ip", "link", "delete", bridge)


def _make_mounts(layout: Layout) -> None:
    made = layout.root.parent / _MADE
    lines = ["mount --make-rshared /"]  # among the node's own mounts only: pods may ask for propagation
    for place, folder in NODE_FOLDERS.items():
        if not Path(place).exists():
            missing = [parent for parent in (Path(place), *Path(place).parents) if not parent.exists()]
            with made.open("a") as record:
                record.writelines(f"{path}\n" for path in missing)
            Path(place).mkdir(parents=True)
        (layout.root / folder).mkdir(parents=True, exist_ok=True)
        lines.append(f"mount --bind {layout.root / folder} {place}")
    ready = layout.root / "mounts-ready"
    ready.unlink(missing_ok=True)
    lines += [f"touch {ready}", "exec sleep infinity"]
    script = " && ".join(lines)
    pid = processes.start(layout.root, ANCHOR, ["unshare", "--mount", "--propagation", "private", "sh", "-c", script])
    while not ready.exists():
        if not processes.alive(pid):
            raise RuntimeError(f"The node's mounts failed: {(layout.logs / f'{ANCHOR}.log').read_text().strip()}")
        time.sleep(0.01)


def _remove_mount_points(root: Path) -> None:
    """Folders that we had to make for mounting on, the deepest first, unless something else lies in them by now."""
    with suppress(FileNotFoundError):
        for line in sorted(set((root / _MADE).read_text().splitlines()), key=len, reverse=True):
            with suppress(OSError):
                Path(line).rmdir()
        (root / _MADE).unlink()


def _groups(layout: Layout) -> Iterator[Path]:
    for mount in control_groups():
        yield mount / layout.cgroup.lstrip("/")


def _inherit_processors(group: Path) -> None:
    """With version 1 a new group has no processor and no memory node until it is given some."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).exists() and not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text())


def _end_pods(layout: Layout) -> None:
    """Containers know nothing of us, but their control groups lie below ours."""
    until = time.monotonic() + 20
    while pids := {pid for group in _groups(layout) for pid in _members(group)}:
        processes.end(sorted(pids))
        if time.monotonic() > until:
            raise TimeoutError(f"Pods go on starting processes in {layout.cgroup}: {sorted(pids)}")


def _members(group: Path) -> Iterator[int]:
    for folder, _, _ in os.walk(group):
        with suppress(OSError):
            yield from map(int, Path(folder, "cgroup.procs").read_text().split())


def _remove_group(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        for _ in range(200):  # the kernel needs a moment after the last process
            try:
                Path(folder).rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
        else:
            raise TimeoutError(f"The control group {folder} cannot be removed.")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
