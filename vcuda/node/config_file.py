"""`config`: the limits of a claim, which the agent writes and its programs read. Standard library only."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

from vcuda.node.file_header import MAX_DEVICES, OLDEST, TAG_BYTES, VERSION, check_header, checked_tag
from vcuda.node.mapped import LayoutError, Table, Words, fence, place

CONFIG_MAGIC: Final = int.from_bytes(b"TESSCONF", "little")
UUID_BYTES: Final = 48

MEMORY_LIMITED: Final = 1
COMPUTE_LIMITED: Final = 2
EXCLUSIVE: Final = 4

_CONFIG_HEADER, _CONFIG_DEVICE = 256, 256
CONFIG_SIZE: Final = _CONFIG_HEADER + MAX_DEVICES * _CONFIG_DEVICE
_GENERATION_AT, _BEAT_AT, _TAG_AT = 40, 64, 48
_READ_TRIES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """What a claim may use of one card. Bytes; per mille of the card's time; `_ppm` millionths; `_ns` of node time."""

    uuid: str
    flags: int = MEMORY_LIMITED | COMPUTE_LIMITED
    memory_limit: int
    overhead_bytes: int = 0
    observed_bytes: int = 0
    observed_at_ns: int = 0
    guarantee: int
    ceiling: int
    share: int
    others: int = 0
    phi_ppm: int = 1_000_000
    m_ppm: int = 1_000_000
    priority: int = 0
    busy: int = 0


_RECORD: Final[Table] = {
    "flags": ("I", 4),
    "memory_limit": ("Q", 56),
    "overhead_bytes": ("Q", 64),
    "observed_bytes": ("Q", 72),
    "observed_at_ns": ("Q", 80),
    "guarantee": ("I", 88),
    "ceiling": ("I", 92),
    "share": ("I", 96),
    "others": ("I", 100),
    "phi_ppm": ("I", 104),
    "m_ppm": ("I", 108),
    "priority": ("i", 112),
    "busy": ("I", 116),
}


class ConfigFile:
    """`config`: the limits of a claim. One writer, the agent; any number of readers."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._words = Words(path, writable=writable)
        check_header(self._words, magic=CONFIG_MAGIC, size=CONFIG_SIZE)
        self._header_size = self._words.get("I", 16)
        self._record_size = self._words.get("I", 20)
        self.count = min(self._words.get("I", 24), MAX_DEVICES)

    @classmethod
    def create(cls, path: Path, *, tag: bytes, records: Sequence[DeviceRecord], mode: int = 0o644) -> Self:
        """Write a complete file and put it in place in one step. `tag`: 16 bytes that name the claim; <= 16 records."""
        if len(records) > MAX_DEVICES:
            raise ValueError(f"a claim holds at most {MAX_DEVICES} cards, not {len(records)}")
        header = struct.pack(
            "<QIIIIIIQQ", CONFIG_MAGIC, VERSION, OLDEST, _CONFIG_HEADER, _CONFIG_DEVICE, len(records), 0, CONFIG_SIZE, 1
        )
        body = bytearray(header.ljust(CONFIG_SIZE, b"\0"))
        body[_TAG_AT : _TAG_AT + TAG_BYTES] = checked_tag(tag)
        for index, record in enumerate(records):
            at = _CONFIG_HEADER + index * _CONFIG_DEVICE
            body[at : at + _CONFIG_DEVICE] = _record_bytes(record)
        place(path, bytes(body), size=CONFIG_SIZE, mode=mode)
        return cls(path, writable=True)

    @property
    def tag(self) -> bytes:
        return self._words.bytes_at(_TAG_AT, TAG_BYTES)

    @property
    def generation(self) -> int:
        return self._words.get("Q", _GENERATION_AT)

    @property
    def agent_beat_ns(self) -> int:
        return self._words.get("Q", _BEAT_AT)

    def beat(self, now_ns: int) -> None:
        """Say that the agent lives; `now_ns` is node time."""
        self._words.set("Q", _BEAT_AT, now_ns)

    def records(self) -> list[DeviceRecord]:
        return [self.read(index) for index in range(self.count)]

    def read(self, index: int) -> DeviceRecord:
        """One record, whole. Raises LayoutError when a writer died in the middle of a write and nobody wrote since."""
        at = self._at(index)
        for _ in range(_READ_TRIES):
            before = self._words.get("I", at)
            record = self._fields(at)
            if before % 2 == 0 and self._words.get("I", at) == before:
                return record
            time.sleep(0)  # the writer may be a thread of this process and want the interpreter
        raise LayoutError(
            f"record {index} of {self._words.path} is half written. The agent writes it again at its next tick."
        )

    def salvage(self, index: int) -> DeviceRecord:
        """One record as it stands, also where a killed writer left it half written: every field is whole, old or new.

        For the only writer, before it writes the record again.
        """
        return self._fields(self._at(index))

    def write(self, index: int, record: DeviceRecord) -> None:
        """Replace one record while programs run; each program reads it before its next launch."""
        at = self._at(index)
        odd = (self._words.get("I", at) | 1) & 0xFFFFFFFF
        self._words.set("I", at, odd)
        fence()
        self._words.put_bytes(at + 8, _uuid(record.uuid))
        for name, (code, offset) in _RECORD.items():
            self._words.set(code, at + offset, getattr(record, name))
        fence()
        self._words.set("I", at, (odd + 1) & 0xFFFFFFFF)
        self._words.set("Q", _GENERATION_AT, self.generation + 1)

    def _fields(self, at: int) -> DeviceRecord:
        uuid = self._words.bytes_at(at + 8, UUID_BYTES).rstrip(b"\0").decode("ascii", "replace")
        return DeviceRecord(uuid=uuid, **self._words.table(_RECORD, at))

    def _at(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise IndexError(f"the claim has {self.count} cards, there is no card {index}")
        return self._header_size + index * self._record_size

    def close(self) -> None:
        self._words.close()


def _record_bytes(record: DeviceRecord) -> bytes:
    body = bytearray(_CONFIG_DEVICE)
    body[8 : 8 + UUID_BYTES] = _uuid(record.uuid)
    for name, (code, offset) in _RECORD.items():
        struct.pack_into("<" + code, body, offset, getattr(record, name))
    return bytes(body)


def _uuid(uuid: str) -> bytes:
    text = uuid.encode("ascii")
    if not 0 < len(text) < UUID_BYTES:
        raise ValueError(f"a card's UUID has 1 to {UUID_BYTES - 1} ASCII characters, not {uuid!r}")
    return text.ljust(UUID_BYTES, b"\0")


assert {field.name for field in fields(DeviceRecord)} == {*_RECORD, "uuid"}
