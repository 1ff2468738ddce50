"""The files of a claim as Python objects: the mirror of vcuda/lib/include/vcuda/layout.h, described in vcuda/ABI.md.

Owns the bytes of `config`, `ledger`, `lock` and `log`: creating them, reading them while programs run, and the agent's
writes. Knows nothing of policies or NVML. Standard library only.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

from vcuda.node.mapped import Copied, LayoutError, Table, Words, fence, place, word, words
from vcuda.node.recordlock import MAX_SLOTS, LockFile

__all__ = [
    "CLASSES",
    "COMPUTE_LIMITED",
    "EXCLUSIVE",
    "MEMORY_LIMITED",
    "ConfigFile",
    "DeviceRecord",
    "LayoutError",
    "LedgerDevice",
    "LedgerFile",
    "LockFile",
    "Slot",
    "SlotDevice",
    "create_files",
]

CONFIG_MAGIC: Final = int.from_bytes(b"TESSCONF", "little")
LEDGER_MAGIC: Final = int.from_bytes(b"TESSLEDG", "little")
VERSION: Final = 1
OLDEST: Final = 1

MAX_DEVICES: Final = 16
COST_ENTRIES: Final = 4096
TAG_BYTES: Final = 16
UUID_BYTES: Final = 48
CLASSES: Final = ("linear", "pitched", "managed", "pool", "array", "vmm", "context", "other")

MEMORY_LIMITED: Final = 1
COMPUTE_LIMITED: Final = 2
EXCLUSIVE: Final = 4

_CONFIG_HEADER, _CONFIG_DEVICE = 256, 256
_LEDGER_HEADER, _LEDGER_DEVICE, _SLOT_HEADER, _SLOT_DEVICE, _COST = 4096, 512, 128, 128, 128
_SLOT: Final = _SLOT_HEADER + MAX_DEVICES * _SLOT_DEVICE
_DEVICES_AT: Final = _LEDGER_HEADER
_SLOTS_AT: Final = _DEVICES_AT + MAX_DEVICES * _LEDGER_DEVICE
_COSTS_AT: Final = _SLOTS_AT + MAX_SLOTS * _SLOT
CONFIG_SIZE: Final = _CONFIG_HEADER + MAX_DEVICES * _CONFIG_DEVICE
LEDGER_SIZE: Final = _COSTS_AT + MAX_DEVICES * COST_ENTRIES * _COST

_GENERATION_AT, _BEAT_AT, _TAG_AT = 40, 64, 48
_LEDGER_TAG_AT, _SLOTS_USED_AT = 80, 120
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDevice:
    """The claim's books for one card, summed over its processes since the claim was made. Bytes, ns, counts."""

    reserved_bytes: int
    peak_bytes: int
    denied_bytes: int
    denied_count: int
    overhead_bytes: int
    tat_ns: int
    share_seen: int
    charged_ns: int
    throttled_ns: int
    borrowed_ns: int
    launches: int
    probes: int
    waiting: int
    launches_unknown: int
    largest_est_ns: int
    copy_to_device: int
    copy_to_host: int
    copy_on_device: int
    copy_to_device_ns: int
    copy_to_host_ns: int
    copy_on_device_ns: int
    orphaned_bytes: int = 0  # exported by processes that have let go, opened by others


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDevice:
    """One process on one card. `bytes_by_class` follows CLASSES."""

    bytes_by_class: tuple[int, ...]
    inflight_since_ns: int
    inflight_ns: int
    last_launch_ns: int
    outstanding_ns: int
    unmeasured: int
    waiting: int
    contexts: int
    exported_bytes: int = 0  # part of its bytes that other processes may have opened
    imported_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes_by_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One process slot. `alive` comes from the kernel's record lock; `pid` is information only."""

    index: int
    alive: bool
    epoch: int
    pid: int
    started_ns: int
    devices: tuple[SlotDevice, ...]


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
_DEVICE: Final[Table] = {
    "reserved_bytes": ("Q", 0),
    "peak_bytes": ("Q", 8),
    "denied_bytes": ("Q", 16),
    "denied_count": ("Q", 24),
    "overhead_bytes": ("Q", 32),
    "tat_ns": ("Q", 64),
    "share_seen": ("I", 72),
    "charged_ns": ("Q", 128),
    "throttled_ns": ("Q", 136),
    "borrowed_ns": ("Q", 144),
    "launches": ("Q", 152),
    "probes": ("Q", 160),
    "waiting": ("I", 168),
    "launches_unknown": ("Q", 176),
    "largest_est_ns": ("Q", 184),
    "copy_to_device": ("Q", 192),
    "copy_to_host": ("Q", 200),
    "copy_on_device": ("Q", 208),
    "orphaned_bytes": ("Q", 40),
    "copy_to_device_ns": ("Q", 216),
    "copy_to_host_ns": ("Q", 224),
    "copy_on_device_ns": ("Q", 232),
}
_PROCESS: Final[Table] = {
    "inflight_since_ns": ("Q", 64),
    "inflight_ns": ("Q", 72),
    "last_launch_ns": ("Q", 80),
    "outstanding_ns": ("Q", 88),
    "unmeasured": ("I", 96),
    "waiting": ("I", 100),
    "contexts": ("I", 104),
    "exported_bytes": ("Q", 112),
    "imported_bytes": ("Q", 120),
}


def _check_header(file: Words | Copied, *, magic: int, size: int) -> None:
    found = file.get("Q", 0)
    version, oldest_reader = file.get("I", 8), file.get("I", 12)
    if found != magic:
        raise LayoutError(f"{file.path} does not begin like a claim file (found {found:#x}). Prepare the claim again.")
    if version < OLDEST or oldest_reader > VERSION:
        raise LayoutError(
            f"{file.path} has layout version {version}; this agent understands {OLDEST} to {VERSION}. "
            "Restart the programs of the claim with a library of this release."
        )
    if file.size < size:
        raise LayoutError(f"{file.path} is {file.size} bytes long, its layout needs {size}. Prepare the claim again.")


class ConfigFile:
    """`config`: the limits of a claim. One writer, the agent; any number of readers."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._words = Words(path, writable=writable)
        _check_header(self._words, magic=CONFIG_MAGIC, size=CONFIG_SIZE)
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
        body[_TAG_AT : _TAG_AT + TAG_BYTES] = _tag(tag)
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


@dataclass(frozen=True, slots=True)
class _Tables:
    """Where a ledger's records lie, as its header says when it is opened: the next version may have larger ones, or others before them.

    Programs can write over the header later; that leads nobody outside of what was checked.
    """

    device_size: int
    slot_size: int
    slot_count: int
    devices_at: int
    slots_at: int

    @classmethod
    def of(cls, file: Copied) -> Self:
        tables = cls(
            device_size=file.get("I", 20),
            slot_size=file.get("I", 28),
            slot_count=file.get("I", 32),
            devices_at=file.get("Q", 48),
            slots_at=file.get("Q", 56),
        )
        sound = (
            tables.device_size >= _LEDGER_DEVICE
            and tables.slot_size >= _SLOT
            and 0 < tables.slot_count <= MAX_SLOTS
            and tables.devices_at + MAX_DEVICES * tables.device_size <= file.size
            and tables.slots_at + tables.slot_count * tables.slot_size <= file.size
        )
        if not sound:
            raise LayoutError(
                f"{file.path} is {file.size} bytes long, and its header speaks of records that do not fit into it. "
                "Prepare the claim again."
            )
        return tables


class LedgerFile:
    """`ledger`: what the programs of a claim use. The library writes; the agent reads, and resets `largest_est_ns`.

    Programs may cut the file off: every read raises LayoutError then.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._file = Copied(path, writable=writable)
        try:
            _check_header(self._file, magic=LEDGER_MAGIC, size=_LEDGER_HEADER)
            self._tables = _Tables.of(self._file)
        except LayoutError:
            self._file.close()
            raise

    @classmethod
    def create(cls, path: Path, *, tag: bytes, mode: int = 0o600) -> Self:
        """Make an empty, sparse ledger and put it in place in one step."""
        sizes = (_LEDGER_HEADER, _LEDGER_DEVICE, MAX_DEVICES, _SLOT, MAX_SLOTS, _COST, COST_ENTRIES, 0)
        offsets = (_DEVICES_AT, _SLOTS_AT, _COSTS_AT, LEDGER_SIZE)
        header = struct.pack("<QII8I4Q16s", LEDGER_MAGIC, VERSION, OLDEST, *sizes, *offsets, _tag(tag))
        place(path, header, size=LEDGER_SIZE, mode=mode)
        return cls(path, writable=True)

    @property
    def tag(self) -> bytes:
        return self._file.bytes_at(_LEDGER_TAG_AT, TAG_BYTES)

    @property
    def refused_count(self) -> int:
        return self._file.get("Q", 96)

    @property
    def reclaimed_slots(self) -> int:
        return self._file.get("Q", 104)

    def device(self, index: int) -> LedgerDevice:
        piece = self._file.bytes_at(self._device_at(index), _LEDGER_DEVICE)
        return LedgerDevice(**words(piece, _DEVICE, 0))

    def reset_largest_estimate(self, index: int) -> None:
        self._file.set("Q", self._device_at(index) + _DEVICE["largest_est_ns"][1], 0)

    def slots(
        self, held: Collection[int], *, devices: int = MAX_DEVICES, pids: Mapping[int, int] | None = None
    ) -> Iterator[Slot]:
        """Every slot ever taken; `held` is LockFile.held(). The next allocation gives a dead slot's bytes back.

        `pids` is LockFile.holders(): the kernel's word on who holds a slot goes before what the slot says, which is the
        program's own view of its process namespace.
        """
        used = min(self._file.get("I", _SLOTS_USED_AT), self._tables.slot_count)
        piece = self._file.bytes_at(self._tables.slots_at, used * self._tables.slot_size) if used else b""
        for index in range(used):
            at = index * self._tables.slot_size
            if word(piece, "Q", at):
                yield Slot(
                    index=index,
                    alive=index in held,
                    epoch=word(piece, "Q", at),
                    pid=(pids or {}).get(index) or word(piece, "I", at + 8),
                    started_ns=word(piece, "Q", at + 32),
                    devices=tuple(_process(piece, at, device) for device in range(devices)),
                )

    def _device_at(self, index: int) -> int:
        if not 0 <= index < MAX_DEVICES:
            raise IndexError(f"a ledger has {MAX_DEVICES} cards, there is no card {index}")
        return self._tables.devices_at + index * self._tables.device_size

    def close(self) -> None:
        self._file.close()


def _process(piece: bytes, slot_at: int, device: int) -> SlotDevice:
    at = slot_at + _SLOT_HEADER + device * _SLOT_DEVICE
    held = tuple(word(piece, "Q", at + 8 * position) for position in range(len(CLASSES)))
    return SlotDevice(bytes_by_class=held, **words(piece, _PROCESS, at))


def create_files(
    folder: Path, *, tag: bytes, records: Sequence[DeviceRecord], config_mode: int = 0o644, shared_mode: int = 0o600
) -> None:
    """Make the four files of a claim in an existing folder. What is there stays: a repeated call is harmless.

    `shared_mode` is for `ledger`, `lock` and `log`, which the claim's programs write.
    """
    makers: dict[str, Callable[[Path], None]] = {
        "config": lambda path: ConfigFile.create(path, tag=tag, records=records, mode=config_mode).close(),
        "ledger": lambda path: LedgerFile.create(path, tag=tag, mode=shared_mode).close(),
        "lock": lambda path: LockFile.create(path, mode=shared_mode),
        "log": lambda path: place(path, b"", size=0, mode=shared_mode),
    }
    for name, make in makers.items():
        with suppress(FileExistsError):
            make(folder / name)


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


def _tag(tag: bytes) -> bytes:
    if len(tag) != TAG_BYTES:
        raise ValueError(f"a claim's tag has {TAG_BYTES} bytes, not {len(tag)}")
    return tag


assert {field.name for field in fields(DeviceRecord)} == {*_RECORD, "uuid"}
assert {field.name for field in fields(LedgerDevice)} == set(_DEVICE)
