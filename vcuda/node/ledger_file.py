"""`ledger`: what the programs of a claim use, which they write and the agent reads. Standard library only."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

from vcuda.node.file_header import MAX_DEVICES, OLDEST, TAG_BYTES, VERSION, check_header, checked_tag
from vcuda.node.mapped import Copied, LayoutError, Table, place, word, words
from vcuda.node.recordlock import MAX_SLOTS

LEDGER_MAGIC: Final = int.from_bytes(b"TESSLEDG", "little")
COST_ENTRIES: Final = 4096
CLASSES: Final = ("linear", "pitched", "managed", "pool", "array", "vmm", "context", "other")
OVERHEAD_PAGE: Final = 2 << 20  # bytes

_LEDGER_HEADER, _LEDGER_DEVICE, _SLOT_HEADER, _SLOT_DEVICE, _COST = 4096, 512, 128, 128, 128
_SLOT: Final = _SLOT_HEADER + MAX_DEVICES * _SLOT_DEVICE
_DEVICES_AT: Final = _LEDGER_HEADER
_SLOTS_AT: Final = _DEVICES_AT + MAX_DEVICES * _LEDGER_DEVICE
_COSTS_AT: Final = _SLOTS_AT + MAX_SLOTS * _SLOT
LEDGER_SIZE: Final = _COSTS_AT + MAX_DEVICES * COST_ENTRIES * _COST
_LEDGER_TAG_AT, _SLOTS_USED_AT = 80, 120
_OVERHEAD_AT: Final = 40  # in a slot


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
            check_header(self._file, magic=LEDGER_MAGIC, size=_LEDGER_HEADER)
            self._tables = _Tables.of(self._file)
        except LayoutError:
            self._file.close()
            raise

    @classmethod
    def create(cls, path: Path, *, tag: bytes, mode: int = 0o600) -> Self:
        """Make an empty, sparse ledger and put it in place in one step."""
        sizes = (_LEDGER_HEADER, _LEDGER_DEVICE, MAX_DEVICES, _SLOT, MAX_SLOTS, _COST, COST_ENTRIES, 0)
        offsets = (_DEVICES_AT, _SLOTS_AT, _COSTS_AT, LEDGER_SIZE)
        header = struct.pack("<QII8I4Q16s", LEDGER_MAGIC, VERSION, OLDEST, *sizes, *offsets, checked_tag(tag))
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

    def tell_overhead(self, slot: int, card: int, pages: int) -> None:
        """Tell a process what its contexts, modules and heaps take on a card, in pages of OVERHEAD_PAGE bytes."""
        self._file.set("I", _SLOTS_AT + slot * _SLOT + _OVERHEAD_AT + 4 * card, pages)

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


assert {field.name for field in fields(LedgerDevice)} == set(_DEVICE)
