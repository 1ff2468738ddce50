"""What lives on of an earlier supervisor that was killed together with one of its parts (nginx's workers, above all)."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class _Process(NamedTuple):
    pid: int
    group: int
    began: int  # clock ticks since the machine started
    program: str


def remember(register: Path, leaders: Sequence[int]) -> None:
    """Write down the process groups of these leaders, just started and alive."""
    groups = [process._asdict() for process in map(_look, leaders) if process is not None]
    fresh = register.with_suffix(".new")
    fresh.write_text(json.dumps({"boot": _boot(), "groups": groups}), encoding="utf-8")
    fresh.replace(register)


def end(register: Path) -> int:
    """Kill what still lives of the groups in `register`; how many processes those were.

    A number is not given to a new group while a process of the old one lives, so a leader that began at another time proves
    that the old group is gone; and whoever runs another program is not one of ours.
    """
    try:
        known = json.loads(register.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return 0
    if known["boot"] != _boot():
        return 0
    left = [pid for group in known["groups"] for pid in _members(_Process(**group))]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _members(leader: _Process) -> Iterator[int]:
    now = _look(leader.pid)
    if now is not None and now.began != leader.began:
        return
    for entry in _PROC.glob("[0-9]*"):
        process = _look(int(entry.name))
        if process is not None and process.group == leader.pid and process.program == leader.program:
            yield process.pid


def _look(pid: int) -> _Process | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return _Process(pid, int(fields[2]), int(fields[19]), os.readlink(_PROC / str(pid) / "exe"))
    except OSError:
        return None  # it ended meanwhile


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
