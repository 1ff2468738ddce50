"""Reads a run's output by offset. Offsets are true for as long as the run's log is there, even where old bytes were given up."""

import os
from pathlib import Path

from apps.cluster.drivers.local.runner.log import first_byte
from apps.cluster.specs import LogChunk

LAST_LINES = 12  # shown where a run has crashed
_MOST = 1024**2  # bytes of one answer


def read(path: Path, *, offset: int, limit: int, ended: bool) -> LogChunk:
    """Whole characters only: a chunk never ends within one, unless the output itself does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return LogChunk(text="", offset=0, next=0, eof=ended)
    try:
        size = os.fstat(fd).st_size
        start = size + offset if offset < 0 else offset
        start = first_byte(fd, max(start, 0)) if start < size else size
        data = os.pread(fd, max(0, min(limit, _MOST)), start)
    finally:
        os.close(fd)
    whole = data if ended and start + len(data) == size else _without_broken_end(data)
    after = start + len(whole)
    return LogChunk(text=whole.decode(errors="replace"), offset=start, next=after, eof=ended and after >= size)


def _without_broken_end(data: bytes) -> bytes:
    """Less the first bytes of a UTF-8 character whose rest is not there yet."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if length > back and len(data) > back else data
    return data


def last_lines(path: Path, count: int = LAST_LINES) -> list[str]:
    return read(path, offset=-8192, limit=8192, ended=True).text.splitlines()[-count:]
