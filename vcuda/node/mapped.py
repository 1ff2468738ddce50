"""A file as whole words, mapped or not, and the way to put a file in place in one step. Knows no layout.

A file that only the agent writes is mapped: every load and store of a shared word goes through a typed memoryview, which
moves the whole word at once; `struct` would move it byte by byte. A file that programs write is not: they may cut it off
at any moment, and touching a mapped page that is no longer there would end this process. The kernel copies it instead.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_SIZES: Final = {"B": 1, "I": 4, "i": 4, "Q": 8}
MINIMUM: Final = 256  # bytes; any claim file has at least a header of this size
_FENCE: Final = threading.Lock()

Table = dict[str, tuple[str, int]]  # field -> (code of its width, offset in bytes)


class LayoutError(Exception):
    """A file is not what this version understands; the message says which file, what was found and what to do."""


class Words:
    """A mapped file seen as whole words."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path = path
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            self.size = os.fstat(fd).st_size
            if self.size < MINIMUM or self.size % 8:
                raise LayoutError(f"{path} is {self.size} bytes long: not a claim file. Prepare the claim again.")
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(fd, self.size, access=access)
        finally:
            os.close(fd)
        with memoryview(self._map) as whole:
            self._views = {"B": whole.cast("B"), "I": whole.cast("I"), "i": whole.cast("i"), "Q": whole.cast("Q")}

    def get(self, code: str, offset: int) -> int:
        return self._views[code][offset // _SIZES[code]]

    def set(self, code: str, offset: int, value: int) -> None:
        self._views[code][offset // _SIZES[code]] = value

    def table(self, layout: Table, base: int) -> dict[str, int]:
        return {name: self.get(code, base + offset) for name, (code, offset) in layout.items()}

    def bytes_at(self, offset: int, length: int) -> bytes:
        return bytes(self._views["B"][offset : offset + length])

    def put_bytes(self, offset: int, data: bytes) -> None:
        self._views["B"][offset : offset + len(data)] = data

    def close(self) -> None:
        for view in self._views.values():
            view.release()
        self._map.close()


class Copied:
    """A file of which the kernel copies pieces when they are asked for. An aligned word is old or new, never a mixture."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path = path
        self._fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Raises LayoutError where the file no longer reaches."""
        found = os.pread(self._fd, length, offset)
        if len(found) < length:
            raise LayoutError(f"{self.path} was cut off: it should reach to byte {offset + length}.")
        return found

    def get(self, code: str, offset: int) -> int:
        return word(self.bytes_at(offset, _SIZES[code]), code, 0)

    def set(self, code: str, offset: int, value: int) -> None:
        os.pwrite(self._fd, struct.pack("<" + code, value), offset)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def word(piece: bytes, code: str, offset: int) -> int:
    (value,) = struct.unpack_from("<" + code, piece, offset)
    return int(value)


def words(piece: bytes, layout: Table, base: int) -> dict[str, int]:
    return {name: word(piece, code, base + offset) for name, (code, offset) in layout.items()}


def fence() -> None:
    """Order earlier against later stores on weakly ordered processors: two turns of one lock are a full barrier."""
    for _ in range(2):
        with _FENCE:
            pass


def place(path: Path, content: bytes, *, size: int, mode: int) -> None:
    """Put a complete file in place; FileExistsError when there is one, for programs may have that one mapped."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
        os.ftruncate(fd, size)
        os.fchmod(fd, mode)
        os.link(temporary, path)
    finally:
        os.close(fd)
        temporary.unlink()
