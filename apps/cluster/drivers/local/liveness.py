"""Whether the runner of a run lives, asked of the kernel: it holds a record lock, which no death leaves behind.

A process id is only ever used through a descriptor (pidfd) that was opened while the lock named that process.
"""

import asyncio
import fcntl
import os
import signal
import struct
from contextlib import suppress
from pathlib import Path

_FLOCK = "hhqqi4x"


def holder(lock: Path) -> int | None:
    """Process id of whoever holds the lock now."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(fd)
    kind, _, _, _, pid = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


class Runner:
    """A runner that was alive when this was made."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd
        self._gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._ended)

    @classmethod
    def find(cls, lock: Path) -> "Runner | None":
        """The one that holds `lock`, or None. Must be called in the event loop that will wait for it."""
        pid = holder(lock)
        if pid is None:
            return None
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if holder(lock) != pid:  # it ended before we had the descriptor, which then may belong to another process
            os.close(fd)
            return None
        return cls(pid, fd)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        with suppress(ChildProcessError):  # an adopted one is not our child
            os.waitpid(self.pid, os.WNOHANG)
        self._gone.set()

    async def gone(self) -> None:
        await self._gone.wait()

    def ask_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGTERM)

    def close(self) -> None:
        """Let go; the runner does not notice."""
        if self._fd >= 0:
            with suppress(RuntimeError):  # the loop is closed already
                asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
