"""What Linux offers and the standard library does not: prctl, inotify, holes in files."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_IN_MODIFY = 0x2
_PUNCH_HOLE_KEEP_SIZE = 0x3


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def adopt_orphans() -> None:
    """From now on every descendant whose parent dies becomes our child, so `waitpid` sees each of them end."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def forbid_new_privileges() -> None:
    """No set-uid program raises this process or its descendants any more."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def watch_writes(path: str) -> int:
    """A descriptor that becomes readable when `path` is written to."""
    fd = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    _checked(_libc.inotify_add_watch(fd, path.encode(), _IN_MODIFY))
    return fd


def punch_hole(fd: int, start: int, length: int) -> None:
    """Give the disk space of these bytes back; the file keeps its size, so offsets stay true."""
    offset, size = ctypes.c_int64(start), ctypes.c_int64(length)
    _checked(_libc.fallocate64(fd, _PUNCH_HOLE_KEEP_SIZE, offset, size))
