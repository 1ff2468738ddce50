"""Who may use how much of a card until the next tick: guarantees are kept, idle time is lent up to the ceilings. Pure.

A lender keeps its own share at its guarantee while its idle time is lent: it wakes at full speed, and the loan ends
one tick later. So what never exceeds the card is the *expected* use: the shares of those who want time and the
reserves of those who do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WHOLE: Final = 1000  # per mille
_MARGIN: Final = 20  # per mille kept for a lender above what it used
_SWITCHING: Final = (
    40  # per mille that a card loses with changes between those who want time, and that nobody can be given
)
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What one claim did with one card in the last period. Per mille, `active` from 0 to 1."""

    key: str
    guarantee: int
    ceiling: int
    share: int
    used: int
    waiting: bool
    active: float  # largest activity of its processes

    @property
    def hungry(self) -> bool:
        """It would use more. `active` catches programs that wait for the card rather than for us."""
        return self.waiting or self.used >= 0.9 * self.share or self.active >= 0.5

    @property
    def reserve(self) -> int:
        """What is kept for it: its guarantee, or a little more than it used."""
        return self.guarantee if self.hungry else min(self.guarantee, self.used * 5 // 4 + _MARGIN)


def lend(wants: Sequence[Want]) -> dict[str, int]:
    """Shares for the next period: `guarantee <= share <= ceiling`, and expected use <= the card.

    Idle time goes to the hungry in proportion to their guarantees; what one cannot take, the others get in the next
    of four rounds.
    """
    shares = {want.key: want.guarantee for want in wants}
    pool = usable(wants) - sum(want.reserve for want in wants)
    room = {want.key: want.ceiling - want.guarantee for want in wants if want.hungry and want.ceiling > want.guarantee}
    weight = {want.key: want.guarantee for want in wants}
    for _ in range(_ROUNDS):
        if pool <= 0 or not room:
            break
        given = _deal(pool, room, weight)
        for key, amount in given.items():
            shares[key] += amount
            room[key] -= amount
        pool -= sum(given.values())
        room = {key: left for key, left in room.items() if left > 0}
    return shares


def usable(wants: Sequence[Want]) -> int:
    """What of a card can be promised in loans. Lending all of it to one would take from the guarantees of others what changes between them cost."""
    return WHOLE - (_SWITCHING if sum(want.hungry for want in wants) > 1 else 0)


def _deal(pool: int, room: Mapping[str, int], weight: Mapping[str, int]) -> dict[str, int]:
    """One round: everybody's part of the pool, rounded down, the rest of the rounding to the first that can take it."""
    total = sum(weight[key] for key in room)
    given = {key: min(room[key], pool * weight[key] // total) for key in room}
    rest = min(pool - sum(given.values()), len(room) - 1)
    for key in sorted(room):
        if rest <= 0:
            break
        if given[key] < room[key]:
            given[key] += 1
            rest -= 1
    return given
