"""The ledger of a claim, read as one moment: bytes held, time charged, who was busy. Reading only.

Liveness is the kernel's record lock on a process's slot, and so is the process id: the one in a slot is the program's own
view of its process namespace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from vcuda.node.layout import LedgerDevice, LedgerFile, LockFile, Slot, SlotDevice

_LARGEST: Final = 2**63 - 1  # bytes; a ledger may hold any nonsense, a reader's numbers end here
_LONGEST: Final = {
    "ledger": 1 << 26,
    "lock": 1 << 12,
    "log": 1 << 20,
}  # bytes that each may have; a later layout may be larger than ours
_FLAG_NS: Final = 20_000_000  # how long "in flight" is believed after the last launch, beyond the work itself


@dataclass(frozen=True, slots=True)
class Page:
    """One card's page of a ledger at one moment."""

    device: LedgerDevice
    held_bytes: int  # of living processes
    waiting: int  # launches of living processes that wait for the share
    unmeasured: bool  # a kernel of unknown cost is in flight
    outstanding_ns: int  # estimates of what living processes have in flight: charged already, and not done yet
    busy_ns: Mapping[int, int]  # per living process (its epoch): time with work in flight since it began


@dataclass(frozen=True, slots=True)
class Moment:
    """All pages of a ledger, read at `at_ns` (node time)."""

    at_ns: int
    pages: tuple[Page, ...]
    slots: tuple[Slot, ...]
    hidden: bool = False  # somebody holds a slot whose process id we cannot see

    @property
    def processes(self) -> tuple[int, ...]:
        return tuple(slot.pid for slot in self.slots if slot.alive)


@dataclass(slots=True)
class Books:
    """An open ledger and its locks, for as long as the agent keeps the claim."""

    path: Path
    ledger: LedgerFile
    lock: LockFile
    cards: int
    neighbours: dict[int, int] = field(default_factory=dict)  # card index -> `others` that the claim was told

    @classmethod
    def open(cls, folder: Path, cards: int) -> Self:
        """The books of the claim in `folder`, which has that many cards. Raises LayoutError for a foreign layout."""
        ledger = folder / "ledger"
        return cls(ledger, LedgerFile(ledger, writable=True), LockFile(folder / "lock"), cards)

    def trim(self) -> None:
        """Programs may write past the end of these files; what lies there is nobody's and would fill the machine's disk."""
        for name, longest in _LONGEST.items():
            path = self.path.with_name(name)
            if path.stat().st_size > longest:
                os.truncate(path, longest)

    def read(self, now_ns: int) -> Moment:
        """Raises LayoutError when somebody has cut the ledger off."""
        holders = self.lock.holders()
        slots = tuple(self.ledger.slots(holders, devices=self.cards, pids=holders))
        pages = tuple(self._page(index, slots, now_ns) for index in range(self.cards))
        return Moment(now_ns, pages, slots, hidden=0 in holders.values())

    def _page(self, index: int, slots: Sequence[Slot], now_ns: int) -> Page:
        device = self.ledger.device(index)
        alive = [(slot.epoch, slot.devices[index]) for slot in slots if slot.alive]
        dead_bytes = sum(_gone(slot.devices[index]) for slot in slots if not slot.alive)
        others = self.neighbours.get(index, 0)
        return Page(
            device=device,
            held_bytes=min(_LARGEST, max(0, device.reserved_bytes - dead_bytes)),
            waiting=sum(process.waiting for _, process in alive),
            unmeasured=any(process.unmeasured for _, process in alive),
            outstanding_ns=sum(process.outstanding_ns for _, process in alive),
            busy_ns={epoch: busy_until(process, now_ns, others) for epoch, process in alive},
        )

    def close(self) -> None:
        self.ledger.close()
        self.lock.close()


def _gone(process: SlotDevice) -> int:
    """Bytes that a dead process holds no more. What it had exported others may hold: a library that looks will tell."""
    return max(0, process.total_bytes - process.exported_bytes)


def busy_until(process: SlotDevice, now_ns: int, others: int) -> int:
    """Nanoseconds that the process had work in flight up to `now_ns`.

    The flag expires: a process that launches and then never asks whether its work is done would count as busy for
    ever. Its work may take (1 + others) times as long beside neighbours.
    """
    since = process.inflight_since_ns
    if not since:
        return process.inflight_ns
    believed = process.last_launch_ns + _FLAG_NS + 2 * (1 + others) * process.outstanding_ns
    return process.inflight_ns + max(0, min(now_ns, believed) - since)


def activity(before: Page, after: Page, period_ns: int) -> dict[int, float]:
    """Per process, the part of the period (0 to 1) in which it had work in flight."""
    return {
        epoch: min(1.0, max(0.0, (busy - before.busy_ns.get(epoch, 0)) / period_ns))
        for epoch, busy in after.busy_ns.items()
    }
