"""The agent's folder, and who works in it: one agent at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from vcuda.node.errors import Unavailable

_LOCK: Final = "agent.lock"  # locked by who works here, with the number of its process


def make_state(state: Path, *, closed: bool) -> Path:
    """The folder of the claims. Programs walk through it to their own claim, nobody may list it; `closed`: nor walk."""
    claims = state / "claims"
    for folder in (state, claims):
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o711)
    if closed:
        claims.chmod(0o700)
    return claims.resolve()


def take_state(state: Path) -> int:
    """Hold the state's lock as long as this process lives. Raises Unavailable when another agent holds it."""
    lock = try_state(state)
    if lock is None:
        raise Unavailable(
            f"Another agent (process {holder(state) or 'unknown'}) works in {state}.",
            code="state_in_use",
            hint="Stop it first, or give this one a folder of its own with --state.",
        )
    return lock


def try_state(state: Path) -> int | None:
    """The lock, which is held until it is closed or this process ends; None while another agent holds it."""
    lock = os.open(state / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    os.truncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
    return lock


def holder(state: Path) -> int | None:
    """The process that holds the lock, or held it last."""
    try:
        return int((state / _LOCK).read_text("ascii"))
    except (OSError, ValueError):
        return None
