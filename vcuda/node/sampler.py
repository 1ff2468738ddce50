"""The figures of one second: one sample per card and per claim on a card. Says None where nothing is known, never zero.

The field names are those of the portal's `Sample`; the agent shares no code with the portal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from vcuda.node.books import Page
from vcuda.node.control import CardState
from vcuda.node.kept import Kept, KeptPart
from vcuda.node.layout import LedgerDevice

_NAMED: Final = 8  # processes in a sample
_LARGEST: Final = 2**63 - 1  # a claim's own ledger may hold any nonsense, the readers of samples store 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Shares in per mille of the card, memory in bytes, milliseconds, °C and W."""

    subject: str
    at: datetime
    compute_used: int | None = None
    compute_limit: int | None = None
    memory_used: int | None = None
    memory_limit: int | None = None
    throttled_ms: int | None = None
    denied_bytes: int | None = None
    uncounted_bytes: int | None = None
    borrowed: int | None = None
    temperature: int | None = None
    power: int | None = None
    bypass: dict[str, Any] | None = None  # what goes around the limits, while it does

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the books of one claim on one card gained in a second; None: not known."""

    charged: int | None = None  # per mille
    throttled_ms: int | None = None


def sample_all(
    cards: Sequence[CardState], claims: Sequence[Kept], at: datetime, names: Callable[[int], str]
) -> list[Sample]:
    """Once a second. Ends the second of every gauge. `names` tells a program's name by its process."""
    parts = [sample_part(claim, part, at, names) for claim in claims for part in claim.parts.values()]
    return [*(sample_card(card, claims, at) for card in cards), *parts]


def sample_card(card: CardState, claims: Sequence[Kept], at: datetime) -> Sample:
    """The driver's view of a whole card."""
    used = card.gauges.memory_used
    return Sample(
        subject=f"card:{card.facts.uuid}",
        at=at,
        compute_used=card.gauge.take(),
        memory_used=used,
        memory_limit=card.facts.allocatable,
        uncounted_bytes=None if used is None else max(0, used - _counted(card.facts.uuid, claims)),
        temperature=card.gauges.temperature,
        power=card.gauges.power,
    )


def sample_part(claim: Kept, part: KeptPart, at: datetime, names: Callable[[int], str]) -> Sample:
    """A claim's use of a card, against what it may use."""
    spent = _spend(claim, part)
    measured = part.gauge.take()
    used = measured if measured is not None else spent.charged
    page = claim.now.pages[part.index] if claim.now is not None else None
    return Sample(
        subject=f"run:{claim.claim.name}:{part.record.uuid}",
        at=at,
        compute_used=used,
        compute_limit=part.record.share,
        memory_used=_memory(claim, part, page),
        memory_limit=part.record.memory_limit,
        throttled_ms=spent.throttled_ms,
        denied_bytes=None if page is None else min(_LARGEST, page.device.denied_bytes),
        uncounted_bytes=part.uncounted_bytes,
        borrowed=None if used is None else max(0, used - part.record.guarantee),
        bypass=_bypass(part, names),
    )


def _bypass(part: KeptPart, names: Callable[[int], str]) -> dict[str, Any] | None:
    if part.watch.evidence is None:
        return None
    return {
        **part.watch.evidence,
        "processes": [f"{names(pid)} ({pid})" for pid in sorted(part.watch.pids or part.pids)][:_NAMED],
    }


def _memory(claim: Kept, part: KeptPart, page: Page | None) -> int | None:
    """By the books; without the library there are none, and the driver tells."""
    if not claim.backend.shim:
        return part.observed_bytes
    return None if page is None else page.held_bytes


def spent_between(before: LedgerDevice, after: LedgerDevice, period_ns: int) -> Spent:
    return Spent(
        charged=min(1000, max(0, after.charged_ns - before.charged_ns) * 1000 // period_ns),
        throttled_ms=min(_LARGEST, max(0, after.throttled_ns - before.throttled_ns) // 1_000_000),
    )


def _spend(claim: Kept, part: KeptPart) -> Spent:
    """The gain since the last call; nothing is known at the first."""
    if claim.now is None:
        return Spent()
    before, part.second = part.second, (claim.now.at_ns, claim.now.pages[part.index].device)
    if before is None or claim.now.at_ns <= before[0]:
        return Spent()
    return spent_between(before[1], part.second[1], claim.now.at_ns - before[0])


def _counted(uuid: str, claims: Iterable[Kept]) -> int:
    """Bytes of a card that the ledgers know of: the larger figure of the last two ticks, as for a claim."""
    return sum(
        max(moment.pages[claim.parts[uuid].index].held_bytes for moment in (claim.before, claim.now) if moment)
        if claim.backend.shim
        else claim.parts[uuid].observed_bytes or 0
        for claim in claims
        if uuid in claim.parts and claim.now
    )
