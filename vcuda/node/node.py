"""The machine as the agent knows it: its cards, the claims on them, and what one tick and one second do to both.

Single-threaded: everything here runs on the event loop. Asks no driver and no clock itself; looks and moments are
handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from vcuda.node import prepare
from vcuda.node.attribute import Attribution
from vcuda.node.backends.base import enforced
from vcuda.node.backends.choose import Backends
from vcuda.node.claims import (
    MIB,
    WHOLE,
    Claim,
    Held,
    Part,
    check_name,
    check_room,
    new_record,
    parse_change,
    parse_claim,
)
from vcuda.node.control import CardState, learn_overhead, tick_card
from vcuda.node.errors import Conflict, Missing, NodeError
from vcuda.node.kept import Kept
from vcuda.node.layout import LayoutError, LockFile
from vcuda.node.nvml import CardFacts, Gauges, Look
from vcuda.node.sampler import Sample, sample_all

_PPM: Final = 1_000_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A claim whose files are foreign or damaged: left as they are, and what they promise is not promised again."""

    why: str
    held: Sequence[Held]


class Node:
    """`root` is the folder of the claims; `simulated` is told to people only."""

    def __init__(
        self,
        *,
        root: Path,
        cards: Sequence[CardFacts],
        libraries: prepare.Libraries | None,
        simulated: bool,
        attribution: Attribution | None = None,
        backends: Backends | None = None,
    ) -> None:
        self.root = root
        self.cards = {facts.uuid: CardState(facts) for facts in cards}
        self.claims: dict[str, Kept] = {}
        self.unreadable: dict[str, Unreadable] = {}
        self.samples: Sequence[Sample] = ()
        self.simulated = simulated
        self.ticked_ns: int | None = None
        self._libraries = libraries
        self._attribution = attribution or Attribution()
        self.backends = backends or Backends()

    # --- claims ---

    def adopt(self) -> None:
        """Go on with the claims that lie on disk."""
        for folder in prepare.found(self.root):
            try:
                self.claims[folder.name] = self._adopted(folder)
            except (LayoutError, OSError, NodeError) as error:
                self._set_aside(folder.name, str(error))
        log.info("Went on with %d claims from disk.", len(self.claims))

    def _adopted(self, folder: Path) -> Kept:
        """Its limits are in force already, or are written once more; a driver that refuses now is told of, and no reason to drop it."""
        kept = Kept.open(folder, self.backends.found(folder, prepare.adopt(folder)))
        try:
            enforced(kept.backend, folder, kept.claim)
        except NodeError as error:
            log.warning("Claim %s: %s", folder.name, error)
        return kept

    def put(self, name: str, body: object) -> tuple[Claim, bool]:
        """`keep`, with the claim as the body of an HTTP request."""
        return self.keep(parse_claim(name, body))

    def keep(self, claim: Claim) -> tuple[Claim, bool]:
        """The claim, and whether it was made now. The same claim again changes nothing."""
        name = check_name(claim.name)
        if name in self.unreadable:
            raise Conflict(
                f"The files of claim {name} cannot be used: {self.unreadable[name].why}",
                code="claim_unreadable",
                hint="End its programs, delete it and make it again.",
            )
        kept = self.claims.get(name)
        if kept is not None:
            same = self._same(kept.claim, claim)
            enforced(kept.backend, kept.folder, same)
            return same, False
        if self._libraries is None:
            raise Conflict("This machine has no GPU driver, so it has no cards to share.", code="no_cards")
        check_room(claim, self._allocatable(), self.held())
        prepare.check_account(self.root, claim)
        prepare.check_group(claim)
        backend = self.backends.of(claim)
        records = [new_record(part) for part in claim.parts]
        folder = prepare.prepare(self.root, claim, records, self._libraries, shim=backend.shim)
        try:
            enforced(backend, folder, claim)
            self.claims[name] = Kept.open(folder, backend)
        except (NodeError, LayoutError, OSError):
            backend.release(claim)
            prepare.remove(self.root, name)
            raise
        log.info("Made claim %s on %s, kept by %s.", name, ", ".join(part.uuid for part in claim.parts), backend.name)
        return claim, True

    def bring(self, claim: Claim) -> Claim:
        """Make the claim, or bring the one that is there to these limits."""
        kept = self.claims.get(claim.name)
        if kept is None or _but_for_limits(kept.claim) != _but_for_limits(claim):
            return self.keep(claim)[0]
        return self._limit(kept, claim)

    def change(self, name: str, body: object) -> Claim:
        """`bring`, with the new limits as the body of an HTTP request."""
        kept = self._kept(name)
        return self._limit(kept, parse_change(kept.claim, body))

    def _limit(self, kept: Kept, claim: Claim) -> Claim:
        """New limits, in place. Less memory than is used takes nothing away; it refuses what comes next."""
        name = claim.name
        check_room(claim, self._allocatable(), self.held())
        if kept.claim != claim:
            log.info("Changing claim %s.", name)
        kept.change(claim)
        return claim

    def delete(self, name: str) -> None:
        """Remove a claim that nobody uses; a missing one is no error."""
        kept = self.claims.get(check_name(name))
        if kept is None and name not in self.unreadable:
            return
        users = self._users(kept) if kept else self._lock_holders(name)
        if users:
            raise Conflict(
                f"Claim {name} is still used by {len(users)} process(es).",
                code="claim_in_use",
                hint="End them first; the claim's books are theirs as long as they live.",
                evidence={"processes": users},
            )
        if kept:
            del self.claims[name]
            kept.close()
            kept.backend.release(kept.claim)
        self.unreadable.pop(name, None)
        self._attribution.pods.pop(name, None)
        prepare.remove(self.root, name)
        log.info("Removed claim %s.", name)

    def answer(self, claim: Claim) -> dict[str, Any]:
        """What a driver needs to start programs of the claim."""
        env = prepare.environment(self.root, claim)
        return {
            "name": claim.name,
            "path": str(self.root / claim.name),
            "library_path": env["LD_LIBRARY_PATH"],
            "env": env,
        }

    def held(self) -> list[Held]:
        """What every claim has of every card, also those claims whose books cannot be read: their programs may live."""
        aside = [held for unreadable in self.unreadable.values() for held in unreadable.held]
        return [held for kept in self.claims.values() for held in kept.held()] + aside

    def tell_pods(self, name: str, uids: Collection[str]) -> None:
        """Which pods may use a claim: how processes that show no other sign are known."""
        self._attribution.pods[name] = frozenset(uids)

    def knows(self, name: str) -> bool:
        """Whether there is such a claim, readable or not."""
        return name in self.claims or name in self.unreadable

    def get(self, name: str) -> Kept:
        return self._kept(name)

    # --- time ---

    def tick(self, looks: Mapping[str, Look], now_ns: int, driver_us: int | None = None) -> None:
        """Every 100 ms of node time. `driver_us`: now by the clock with which the driver stamps its windows."""
        for name, kept in list(self.claims.items()):
            try:
                kept.read(now_ns)
            except (LayoutError, OSError) as error:
                self._drop(name, kept, str(error))
        accounts = {name: kept.claim.uid for name, kept in self.claims.items()}
        holders = {pid: name for name, kept in self.claims.items() if kept.now for pid in kept.now.processes}
        for uuid, look in looks.items():
            tick_card(
                self.cards[uuid],
                look,
                list(self.claims.values()),
                lambda pid: self._attribution.claim_of(pid, accounts, holders),
                now_ns,
                driver_us,
            )
        for kept in self.claims.values():
            kept.config.beat(now_ns)
        self.ticked_ns = now_ns

    def second(self, gauges: Mapping[str, Gauges], now_ns: int, at: datetime) -> Sequence[Sample]:
        """Every second of node time, after the tick: take the samples and tell each claim what was measured of it."""
        for uuid, found in gauges.items():
            self.cards[uuid].gauges = found
        self.samples = sample_all(list(self.cards.values()), list(self.claims.values()), at, self._attribution.command)
        measured = {sample.subject: sample for sample in self.samples}
        for kept in self.claims.values():
            for uuid, part in kept.parts.items():
                sample = measured[f"run:{kept.claim.name}:{uuid}"]
                record = replace(part.record, m_ppm=round(part.m * _PPM), busy=sample.compute_used or 0)
                record = replace(record, overhead_bytes=learn_overhead(self.cards[uuid], kept, part))
                if part.observed_bytes is not None:
                    record = replace(record, observed_bytes=part.observed_bytes, observed_at_ns=now_ns)
                kept.write(part, record)
            kept.books.trim()
        self._attribution.forget_ended(self._listed())
        return self.samples

    def close(self) -> None:
        """A clean end: take back what is lent, for nobody will. Claims stay."""
        for kept in self.claims.values():
            kept.rest()
            kept.close()
        self.claims.clear()

    # --- inside ---

    def _kept(self, name: str) -> Kept:
        kept = self.claims.get(check_name(name))
        if kept is None:
            raise Missing(f"There is no claim {name}.")
        return kept

    @staticmethod
    def _same(present: Claim, wanted: Claim) -> Claim:
        if present != wanted:
            raise Conflict(
                f"Claim {present.name} exists with other numbers.",
                code="claim_differs",
                hint="Change it with PATCH, or make a new claim under another name.",
            )
        return present

    def _allocatable(self) -> dict[str, int]:
        return {uuid: card.facts.allocatable for uuid, card in self.cards.items()}

    def _users(self, kept: Kept) -> list[dict[str, Any]]:
        """Processes that hold a slot's lock, and those that the driver lists and that still are of this claim."""
        accounts = {kept.claim.name: kept.claim.uid}
        try:
            processes = kept.processes()
        except LayoutError:
            return self._lock_holders(kept.claim.name)
        return [
            {"pid": pid, "command": self._attribution.command(pid), "seen_by": how}
            for pid, how in sorted(processes.items())
            if how == "library" or self._attribution.claim_of(pid, accounts) == kept.claim.name
        ]

    def _lock_holders(self, name: str) -> list[dict[str, Any]]:
        """Slots of a claim whose books say nothing. Without a lock file nobody can hold one."""
        try:
            lock = LockFile(self.root / name / "lock")
        except FileNotFoundError:
            return []
        try:
            return [{"slot": slot, "seen_by": "library"} for slot in sorted(lock.held())]
        finally:
            lock.close()

    def _drop(self, name: str, kept: Kept, why: str) -> None:
        """Somebody damaged the books of a claim. Its limits stand, its loans end, its figures are unknown from now on."""
        held = kept.held()
        kept.rest()
        kept.close()
        del self.claims[name]
        self._set_aside(name, why, held)

    def _set_aside(self, name: str, why: str, held: Sequence[Held] | None = None) -> None:
        log.error("Claim %s cannot be used: %s", name, why)
        self.unreadable[name] = Unreadable(why, held if held is not None else _promised(self.root / name))

    def _listed(self) -> set[int]:
        return {process.pid for card in self.cards.values() for process in card.look.processes or ()}


def _but_for_limits(claim: Claim) -> Claim:
    """What stays for as long as there is the claim: its cards, its account."""
    parts = tuple(Part(uuid=part.uuid, memory=MIB, compute=1, ceiling=WHOLE) for part in claim.parts)
    return replace(claim, parts=parts)


def _promised(folder: Path) -> list[Held]:
    """What a claim's `config` promises, where that can still be read."""
    try:
        claim = prepare.adopt(folder)
    except (LayoutError, OSError, NodeError):
        return []
    return [Held(claim=claim.name, part=part, share=part.compute) for part in claim.parts]
