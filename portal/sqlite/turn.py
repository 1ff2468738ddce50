"""Whose turn it is to write: threads of one process in the order in which they came, processes fairly among each other.

SQLite lets one transaction write at a time. Whoever finds it taken looks again after pauses that grow to 100 ms, and whoever comes in
between goes first: under load some wait until their time-out while others never wait. Here everyone waits for their turn instead.

Where answers to people and work behind them write to the same file, the work lets the answers go first, for a moment each time.

Nothing depends on it for its truth: SQLite's own lock remains. So a turn that is not given back with a killed process is free again, and
a writer that takes no turn only waits as it always did.
"""

import fcntl
import os
import threading
import time
from collections import deque
from pathlib import Path

_PAUSE = 0.001  # s between two looks at another process's lock; one thread of each process looks
_COURTESY = 0.1  # s that work waits at most for those who answer people, before each of its turns


class Turn:
    """One for each database file and process. `take` and `give` may be called from different threads.

    `behind`: this process does work, and lets those that answer people go first.
    """

    def __init__(self, database: str, *, behind: bool = False) -> None:
        self._path = Path(f"{database}-turn")
        self._behind = behind
        self._interested = 0  # threads that wait or have it
        self._mutex = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()
        self._files = _Files(self._path)

    def take(self, seconds: float) -> bool:
        """Wait until it is ours, at most so long; False when it did not come."""
        end = time.monotonic() + seconds
        self._count(1)
        if self._take_among_threads(seconds):
            if self._behind:
                self._files.let_others_go(min(end, time.monotonic() + _COURTESY))
            if self._files.take(end):
                return True
            self._give_among_threads()
        self._count(-1)
        return False

    def give(self) -> None:
        self._files.give()
        self._give_among_threads()
        self._count(-1)

    def _count(self, more: int) -> None:
        with self._mutex:
            before, self._interested = self._interested, self._interested + more
            if not self._behind and 0 in (before, self._interested):
                self._files.announce(self._interested > 0)

    def _take_among_threads(self, seconds: float) -> bool:
        with self._mutex:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=max(seconds, 0.0)):
            return True
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it was handed over at that very moment

    def _give_among_threads(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()  # handed over: nobody who comes now goes first
            else:
                self._taken = False


class _Files:
    """Locks between processes: who holds `next` is the only one that looks at `now`, so nobody who has just written goes before them.
    `people` is shared by all processes in which somebody who is answered has or wants a turn.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._owner = path, 0
        self._next = self._now = self._people = -1

    def take(self, end: float) -> bool:
        self._open()
        if not _lock(self._next, end):
            return False
        try:
            return _lock(self._now, end)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def give(self) -> None:
        fcntl.flock(self._now, fcntl.LOCK_UN)

    def announce(self, interested: bool) -> None:
        self._open()
        fcntl.flock(
            self._people, fcntl.LOCK_SH if interested else fcntl.LOCK_UN
        )  # held against us for microseconds only

    def let_others_go(self, end: float) -> None:
        self._open()
        if _lock(self._people, end):
            fcntl.flock(self._people, fcntl.LOCK_UN)

    def _open(self) -> None:
        """Of this process: a lock would be shared with the one that it was forked from."""
        if self._owner != os.getpid():
            self._next, self._now, self._people = (
                os.open(f"{self._path}.{which}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                for which in ("next", "now", "people")
            )
            self._owner = os.getpid()


def _lock(file: int, end: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)
