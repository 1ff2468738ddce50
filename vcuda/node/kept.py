"""A claim that the agent keeps: its open files, what was read of them last, what was written to them last."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from vcuda.node import prepare
from vcuda.node.backends.base import Backend, enforced
from vcuda.node.balance import HIGHEST, LOWEST
from vcuda.node.books import Books, Moment, Page
from vcuda.node.bypass import Watch
from vcuda.node.claims import Claim, Held, changed_record, part_of
from vcuda.node.gauge import Gauge
from vcuda.node.layout import COMPUTE_LIMITED, ConfigFile, DeviceRecord, LedgerDevice
from vcuda.node.overheads import Overheads

_PPM: Final = 1_000_000
_FINE: Final = 0.01  # smaller changes of phi and m wait for the next second: programs re-read after each write


@dataclass(slots=True)
class Window:
    """What the multiplier needs to remember from one of the driver's windows to the next."""

    charged_ns: int | None = None  # the ledger's figure when the window began; None: not known
    in_flight_ns: int = 0  # what of it was for work in flight
    in_flight_m: float = 1.0  # the multiplier with which that was charged
    unmeasured: bool = False  # a kernel of unknown cost was seen in it
    unmeasured_before: bool = False
    largest_est_ns: float = 0.0


@dataclass(slots=True)
class KeptPart:
    """One claim on one card. `index` is its place in `config` and `ledger`."""

    index: int
    record: DeviceRecord
    m: float
    pids: frozenset[int] = frozenset()  # processes that the driver shows, attributed to the claim
    observed_bytes: int | None = None
    uncounted_bytes: int | None = None
    gauge: Gauge = field(default_factory=Gauge)
    overheads: Overheads = field(default_factory=Overheads)
    told: dict[int, int] = field(default_factory=dict)  # pages of overhead, by epoch of the process
    window: Window = field(default_factory=Window)
    watch: Watch = field(default_factory=Watch)
    second: tuple[int, LedgerDevice] | None = None  # node time and books when the last sample was taken

    @property
    def compute_limited(self) -> bool:
        return bool(self.record.flags & COMPUTE_LIMITED)


@dataclass(slots=True)
class Kept:
    """A claim, open. `folder` is its own; `backend` keeps its limits."""

    folder: Path
    backend: Backend
    claim: Claim
    config: ConfigFile
    books: Books
    parts: dict[str, KeptPart]  # by UUID of the card
    before: Moment | None = None
    now: Moment | None = None

    @classmethod
    def open(cls, folder: Path, backend: Backend) -> Self:
        """Raises LayoutError when the files are of another layout. A record at which a former agent died is mended."""
        claim = prepare.adopt(folder)
        config = ConfigFile(folder / "config", writable=True)
        records = [changed_record(config.salvage(index), part) for index, part in enumerate(claim.parts)]
        for index, record in enumerate(records):
            config.write(index, record)
        return cls(
            folder=folder,
            backend=backend,
            claim=claim,
            config=config,
            books=Books.open(folder, len(records)),
            parts={
                record.uuid: KeptPart(index, record, min(HIGHEST, max(LOWEST, record.m_ppm / _PPM)))
                for index, record in enumerate(records)
            },
        )

    def read(self, now_ns: int) -> Moment:
        """Raises LayoutError when the books were cut off: they belong to the claim's account."""
        self.before, self.now = self.now, self.books.read(now_ns)
        return self.now

    def pages(self, part: KeptPart) -> tuple[Page, Page, int] | None:
        """The part's books at the last two ticks and the nanoseconds between them; None before the second tick."""
        if self.before is None or self.now is None or self.now.at_ns <= self.before.at_ns:
            return None
        return self.before.pages[part.index], self.now.pages[part.index], self.now.at_ns - self.before.at_ns

    def write(self, part: KeptPart, record: DeviceRecord, *, at_once: bool = True) -> None:
        """Give programs new limits, where something changed that they should know (not `at_once`: that cannot wait)."""
        if record == part.record or not (at_once or _matters(part.record, record)):
            return
        self.config.write(part.index, record)
        self.books.neighbours[part.index] = record.others
        part.record = record

    def change(self, claim: Claim) -> None:
        """Raises Unavailable where the new limits are written and not in force."""
        for wanted in claim.parts:
            part = self.parts[wanted.uuid]
            self.write(part, changed_record(part.record, wanted))
        self.claim = claim
        enforced(self.backend, self.folder, claim)

    def rest(self) -> None:
        """End all loans and forget the neighbours: nobody will watch them for a while."""
        for part in self.parts.values():
            self.write(part, replace(part.record, share=part.record.guarantee, others=0, phi_ppm=_PPM))

    def tell_overheads(self, part: KeptPart, used: Mapping[int, int | None]) -> None:
        """Tell each process what it takes of the card beside what it asked for. `used`: the driver's bytes by process id."""
        if self.before is None or self.now is None:
            return
        told, part.told = part.told, {}
        for slot, pages in part.overheads.measure(part.index, used, self.before.slots, self.now.slots):
            part.told[slot.epoch] = pages
            if told.get(slot.epoch) != pages:
                self.books.ledger.tell_overhead(slot.index, part.index, pages)

    def processes(self) -> Mapping[int, str]:
        """Who uses the claim now, and how we know: the kernel's lock on a slot, or the driver's list."""
        seen = {pid: "driver" for part in self.parts.values() for pid in part.pids}
        holders = self.books.lock.holders()
        hidden = 0 in holders.values()  # outside our process namespace: then only the slots can tell
        slots = self.books.ledger.slots(holders, devices=0, pids=holders) if hidden else ()
        pids = {slot.pid for slot in slots if slot.alive} if hidden else set(holders.values())
        return seen | dict.fromkeys(pids, "library")

    def held(self) -> list[Held]:
        return [
            Held(claim=self.claim.name, part=part_of(part.record), share=part.record.share, used=self.used(part))
            for part in self.parts.values()
        ]

    def used(self, part: KeptPart) -> int:
        """Bytes that its programs hold, by their books and no more than the driver shows: books can be filled with nonsense. 0: not known."""
        if self.now is None or part.observed_bytes is None:
            return 0
        return min(self.now.pages[part.index].held_bytes, part.observed_bytes)

    def close(self) -> None:
        with suppress(ValueError):  # closed already
            self.config.close()
        self.books.close()


def _matters(old: DeviceRecord, new: DeviceRecord) -> bool:
    exact = (old.share, old.others) != (new.share, new.others)
    return exact or _far(old.phi_ppm, new.phi_ppm) or _far(old.m_ppm, new.m_ppm)


def _far(old: int, new: int) -> bool:
    return abs(new - old) > _FINE * old
