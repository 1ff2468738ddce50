"""One tick on one card: who used what since the last one, and what each claim may use until the next.

Glue between the pure laws (`lender`, `balance`, `neighbours`, `utilisation`) and the open files of the claims (`kept`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from vcuda.node import balance
from vcuda.node.books import Moment, activity
from vcuda.node.bypass import Sight, Window
from vcuda.node.gauge import Mean
from vcuda.node.kept import Kept, KeptPart
from vcuda.node.lender import Want, lend
from vcuda.node.neighbours import Neighbours, Uncounted, neighbours_of
from vcuda.node.nvml import CardFacts, Gauges, Look
from vcuda.node.utilisation import Measured, Utilisation

_PPM: Final = 1_000_000
log = logging.getLogger(__name__)
_FADE: Final = 0.98  # per tick, of the largest estimate: a tenth is left after 11 s

Attribute = Callable[[int], str | None]  # process id -> claim


@dataclass(slots=True)
class CardState:
    """A card of this machine, and what was seen of it last."""

    facts: CardFacts
    look: Look = field(default_factory=lambda: Look(fault="not_looked_yet"))
    gauges: Gauges = field(default_factory=Gauges)
    utilisation: Utilisation = field(default_factory=Utilisation)
    uncounted: Uncounted = field(default_factory=Uncounted)
    gauge: Mean = field(default_factory=Mean)
    looked_ns: int | None = None
    context_bytes: int | None = None  # of a bare context, as seen of any claim's processes; None: not yet

    @property
    def illness(self) -> str:
        """Why the card is not healthy; nothing when it is."""
        return self.look.fault or self.gauges.illness


def tick_card(
    card: CardState,
    look: Look,
    claims: Sequence[Kept],
    claim_of: Attribute,
    now_ns: int,
    driver_us: int | None = None,
) -> None:
    """Take in what the driver shows and write each claim's share, neighbours and multiplier. `driver_us`: now, as the driver stamps."""
    window_before = card.utilisation.newest_us
    measured = card.utilisation.feed(look, now_ns)
    card.gauge.add(look.percent, now_ns - card.looked_ns if card.looked_ns is not None else 0)
    card.look, card.looked_ns = look, now_ns
    kept = {
        claim.claim.name: (claim, claim.parts[card.facts.uuid]) for claim in claims if card.facts.uuid in claim.parts
    }
    owners = _attribute(look, kept, claim_of)
    neighbours = _neighbours(card, kept, owners, window_ended=measured is not None or look.percent == 0)
    shares = lend([_want(claim, part) for claim, part in kept.values()])
    for name, (claim, part) in kept.items():
        if not look.fault:
            part.gauge.tick(_busy(part, measured), measured, card.utilisation, now_ns)
        _watch(claim, part)
        if look.processes is not None and claim.now is not None and claim.backend.shim:
            _look_for_bypass(card, claim, part, claim.now, measured)
        if card.utilisation.newest_us != window_before:
            age_us = driver_us - card.utilisation.newest_us if driver_us is not None else None
            _balance(claim, part, measured, age_us)
        near = neighbours[name]
        record = replace(
            part.record, share=shares[name], others=near.others, phi_ppm=near.phi_ppm, m_ppm=round(part.m * _PPM)
        )
        claim.write(part, record, at_once=False)


def learn_overhead(card: CardState, claim: Kept, part: KeptPart) -> int:
    """Once a second: tell the claim's processes what they take beside what they asked for. Bytes of a bare context on this card, for
    programs that have yet to make one; 0: nobody has seen one."""
    claim.tell_overheads(part, {process.pid: process.used for process in card.look.processes or ()})
    seen = [bytes_ for bytes_ in (card.context_bytes, part.overheads.context) if bytes_]
    card.context_bytes = min(seen, default=None)
    return card.context_bytes or part.record.overhead_bytes


def _attribute(look: Look, kept: Mapping[str, tuple[Kept, KeptPart]], claim_of: Attribute) -> dict[int, str | None]:
    """Owners of the processes that the driver lists; each part learns its own. No list: nothing changes."""
    if look.processes is None:
        return {}
    owners = {process.pid: claim_of(process.pid) for process in look.processes}
    for name, (claim, part) in kept.items():
        mine = [process for process in look.processes if owners[process.pid] == name]
        part.pids = frozenset(process.pid for process in mine)
        used = [process.used for process in mine]
        part.observed_bytes = None if None in used else sum(filter(None, used))
        part.uncounted_bytes = _beyond_books(claim, part)
    return owners


def _look_for_bypass(card: CardState, claim: Kept, part: KeptPart, now: Moment, measured: Measured | None) -> None:
    """Where a slot's owner cannot be seen by number, nobody is called a stranger."""
    page, known = now.pages[part.index], set(now.processes)
    processes = card.look.processes or ()
    strangers = {p.pid: p.used for p in processes if p.pid in part.pids - known} if not now.hidden else {}
    if measured is not None:
        books = page.device
        counted = (books.launches, books.copy_to_device, books.copy_to_host, books.copy_on_device)
        under_way = bool(page.outstanding_ns or page.unmeasured or page.waiting)
        busy = _busy(part, measured) or 0
        part.watch.window(Window(length_ns=measured.length_ns, busy_ns=busy, counted=counted, under_way=under_way))
    began = part.watch.feed(
        Sight(
            strangers=strangers,
            beyond=part.uncounted_bytes,
            contexts=sum(slot.devices[part.index].contexts for slot in now.slots if slot.alive),
            context_bytes=page.device.overhead_bytes,
            percents=card.utilisation.percents,
        )
    )
    if began:
        log.warning(
            "Claim %s goes around its limits on %s: %s", claim.claim.name, part.record.uuid, part.watch.evidence
        )


def _beyond_books(claim: Kept, part: KeptPart) -> int | None:
    """What the driver shows above the ledger. The larger figure of the ledger before and after the driver was asked
    counts, so that an allocation or a free in between is not taken for a bypass."""
    if part.observed_bytes is None or claim.now is None or not claim.backend.shim:
        return None
    moments = [moment for moment in (claim.before, claim.now) if moment is not None]
    return max(0, part.observed_bytes - max(moment.pages[part.index].held_bytes for moment in moments))


def _neighbours(
    card: CardState, kept: Mapping[str, tuple[Kept, KeptPart]], owners: Mapping[int, str | None], *, window_ended: bool
) -> dict[str, Neighbours]:
    counted: set[int] = set()
    active: dict[str, list[float]] = {}
    for name, (claim, part) in kept.items():
        pages = claim.pages(part)
        active[name] = list(activity(*pages).values()) if pages else []
        counted.update(claim.now.processes if claim.now else ())
    strangers = card.uncounted.busy(owners.keys() - counted, card.utilisation.percents, window_ended=window_ended)
    busy = {pid: owners[pid] for pid in strangers}
    shares = {name: part.record.share if part.compute_limited else 1000 for name, (_, part) in kept.items()}
    return {name: neighbours_of(name, active, shares, busy) for name in kept}


def _want(claim: Kept, part: KeptPart) -> Want:
    """Before two ticks have been seen nothing is known, and unknown is never idle: such a claim wants what it has."""
    record, pages = part.record, claim.pages(part)
    used, waiting, active = record.share, False, 1.0
    if pages:
        before, after, period = pages
        used = max(0, after.device.charged_ns - before.device.charged_ns) * 1000 // period
        waiting, active = after.waiting > 0, max(activity(*pages).values(), default=0.0)
    return Want(
        key=claim.claim.name,
        guarantee=record.guarantee,
        ceiling=record.ceiling,
        share=record.share,
        used=used,
        waiting=waiting,
        active=active,
    )


def _busy(part: KeptPart, measured: Measured | None) -> int | None:
    """GPU time of the claim's processes in what was measured, ns."""
    return None if measured is None else sum(measured.busy_ns.get(pid, 0) for pid in part.pids)


def _watch(claim: Kept, part: KeptPart) -> None:
    pages = claim.pages(part)
    if pages is None:
        return
    _, after, _ = pages
    part.window.unmeasured |= after.unmeasured
    part.window.largest_est_ns = max(after.device.largest_est_ns, part.window.largest_est_ns * _FADE)
    if after.device.largest_est_ns:
        claim.books.ledger.reset_largest_estimate(part.index)


def _place(age_us: int | None, period_ns: int) -> float:
    """Where between the last tick and this one something of that age was, 0 to 1; the middle where that makes no sense."""
    if age_us is None or not 0 <= age_us * 1000 <= 2 * period_ns:
        return 0.5
    return max(0.0, 1 - age_us * 1000 / period_ns)


def _charged_for_work_done(claim: Kept, part: KeptPart, age_us: int | None) -> int | None:
    """What was charged in the driver's newest window for work that was over at its end, ns. None: not known. The next window begins here.

    Launches are charged before they run and measured after: a queue that has just filled is no error of the books. The window
    ended `age_us` ago, between the last tick and this one. What is in flight was charged with the multiplier of its
    launch: with another one, a rise of the multiplier would make work undone, and that would raise the multiplier.
    """
    pages, window = claim.pages(part), part.window
    if pages is None:
        window.charged_ns = None
        return None
    before, after, period_ns = pages
    place = _place(age_us, period_ns)
    charged = round(before.device.charged_ns * (1 - place) + after.device.charged_ns * place)
    in_flight = round(before.outstanding_ns * (1 - place) + after.outstanding_ns * place)
    begun, flew = window.charged_ns, window.in_flight_ns
    launched = max(0.0, (charged - begun) / part.m) if begun is not None else in_flight
    window.in_flight_m += (part.m - window.in_flight_m) * min(1.0, launched / max(in_flight, 1))
    window.charged_ns, window.in_flight_ns = charged, round(window.in_flight_m * in_flight)
    return None if begun is None else charged - begun - (window.in_flight_ns - flew)


def _balance(claim: Kept, part: KeptPart, measured: Measured | None, age_us: int | None) -> None:
    """A window of the driver has ended: compare books and measurement. `measured` is None after a long gap."""
    window = part.window
    charged = _charged_for_work_done(claim, part, age_us)
    if measured and charged is not None and part.compute_limited:
        part.m = balance.correct(
            part.m,
            balance.Window(
                length_ns=measured.length_ns,
                charged_ns=charged,
                measured_ns=_busy(part, measured) or 0,
                share=part.record.share / 1000,
                largest_est_ns=int(window.largest_est_ns),
                unmeasured=window.unmeasured or window.unmeasured_before,
                coherent=measured.coherent,
            ),
        )
    window.unmeasured_before, window.unmeasured = window.unmeasured, False
