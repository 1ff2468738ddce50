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

    def held(self) -> frozenset[int]:
        """The slots whose owners live, asked of the kernel. Locks nothing itself."""
        found: set[int] = set()
        asked = [(0, MAX_SLOTS)]
        while asked:
            start, end = asked.pop()
            taken = self._any_lock(start, end)
            if taken is not None:
                found.update(range(*taken))
                asked += [(a, b) for a, b in ((start, taken[0]), (taken[1], end)) if a < b]
        return frozenset(found)

    def _any_lock(self, start: int, end: int) -> tuple[int, int] | None:
        """Some locked range inside [start, end), not always the first one; None: all free."""
        question = struct.pack(self._FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
        answer = fcntl.fcntl(self._fd, fcntl.F_GETLK, question)
        kind, _, first, length, _ = struct.unpack(self._FLOCK, answer)
        if kind == fcntl.F_UNLCK:
            return None
        return max(first, start), min(first + length, end) if length else end

    def close(self) -> None:
        os.close(self._fd)
