"""Keeps a run's log from filling the disk: old bytes become a hole, so that offsets stay true and no writer is disturbed."""

import os
from contextlib import suppress

from . import kernel

KEPT = 8 * 1024**2  # bytes at the end that are never given up
_SLACK = KEPT // 4  # and so much more before it is worth the work
_BLOCK = 4096


class Log:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.changes = kernel.watch_writes(path)

    def shorten(self) -> None:
        """Call when `changes` is readable, and at the end."""
        if self.changes < 0:
            return
        with suppress(BlockingIOError):
            os.read(self.changes, 4096)
        start, end = first_byte(self._fd), os.fstat(self._fd).st_size
        if end - start > KEPT + _SLACK:
            try:
                kernel.punch_hole(self._fd, 0, (end - KEPT) // _BLOCK * _BLOCK)
            except OSError:  # a file system without holes keeps everything
                os.close(self.changes)
                self.changes = -1


def first_byte(fd: int, offset: int = 0) -> int:
    """Where the next byte that is still kept lies, from `offset` on; the end of the file where none is."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:
        return os.fstat(fd).st_size
