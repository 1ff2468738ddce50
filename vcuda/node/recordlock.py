"""`lock` of a claim: one byte per process slot, held by its owner through a kernel record lock. Asks, takes none."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from vcuda.node.mapped import place

MAX_SLOTS: Final = 512
LOCK_SIZE: Final = MAX_SLOTS + 1  # bytes; the last one serialises the reclaiming of dead slots


class LockFile:
    _FLOCK: Final = "hhqqi4x"

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    @staticmethod
    def create(path: Path, *, mode: int = 0o600) -> None:
        place(path, b"", size=LOCK_SIZE, mode=mode)

    def holders(self) -> dict[int, int]:
        """The slots whose owners live, and the owners' process ids, asked of the kernel. Locks nothing itself.

        The ids are those of our own process namespace, whatever namespace the owner lives in; 0: we cannot see it.
        """
        found: dict[int, int] = {}
        asked = [(0, MAX_SLOTS)]
        while asked:
            start, end = asked.pop()
            taken = self._any_lock(start, end)
            if taken is not None:
                first, after, pid = taken
                found.update(dict.fromkeys(range(first, after), max(0, pid)))
                asked += [(a, b) for a, b in ((start, first), (after, end)) if a < b]
        return found

    def held(self) -> frozenset[int]:
        return frozenset(self.holders())

    def _any_lock(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Some locked range inside [start, end) and its owner, not always the first one; None: all free."""
        question = struct.pack(self._FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
        answer = fcntl.fcntl(self._fd, fcntl.F_GETLK, question)
        kind, _, first, length, pid = struct.unpack(self._FLOCK, answer)
        if kind == fcntl.F_UNLCK:
            return None
        return max(first, start), min(first + length, end) if length else end, pid

    def close(self) -> None:
        os.close(self._fd)
