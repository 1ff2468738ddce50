"""Who else is busy on a card: what the library must know to tell a slow kernel from a neighbour's turn. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_BUSY: Final = 0.02  # of the period; less is not a neighbour
_BUSY_PERCENT: Final = 5  # of a process without the library, as the driver measures it
_IDLE_WINDOWS: Final = 2  # the first one may have begun before the process did


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Active processes of other claims, and how much longer work takes beside them (1: no longer) in millionths."""

    others: int
    phi_ppm: int


@dataclass(slots=True)
class Uncounted:
    """Processes on one card that no ledger counts: busy from the first sight until the driver shows them idle."""

    _doubts: dict[int, int] = field(default_factory=dict)  # pid -> idle windows still wanted before it is believed idle

    def busy(self, pids: Collection[int], percents: Mapping[int, int], *, window_ended: bool) -> frozenset[int]:
        """Those that count as busy now. `window_ended`: `percents` are of a window that is new since the last call."""
        self._doubts = {pid: self._doubts.get(pid, _IDLE_WINDOWS) for pid in pids}
        working = frozenset(pid for pid in pids if percents.get(pid, 0) > _BUSY_PERCENT)
        if window_ended:
            for pid in self._doubts.keys() - working:
                self._doubts[pid] = max(0, self._doubts[pid] - 1)
        return working | {pid for pid, doubt in self._doubts.items() if doubt}


def neighbours_of(
    claim: str,
    activity: Mapping[str, Iterable[float]],
    shares: Mapping[str, int],
    uncounted: Mapping[int, str | None],
) -> Neighbours:
    """`activity`: per claim, of its processes (0 to 1). `shares`: per claim, what it may use of the card now, per mille.
    `uncounted`: busy ones without the library, by claim.

    Busy processes take turns of one length, so beside processes that are busy for the parts a1, a2, … of the time one has
    1 / (1 + a1 + a2 + …) of the card, and each of the others its part of the rest. But no claim takes more than its share,
    however long its work lies in the queue: beside one at 300 per mille, 700 are left and not the half.
    """
    busy = {other: [a for a in processes if a > _BUSY] for other, processes in activity.items() if other != claim}
    strangers = sum(1 for owner in uncounted.values() if owner != claim)
    turns = 1 + strangers + sum(sum(processes) for processes in busy.values())
    taken = strangers / turns + sum(
        min(sum(processes) / turns, shares[other] / 1000) for other, processes in busy.items()
    )
    return Neighbours(strangers + sum(len(processes) for processes in busy.values()), round(1_000_000 / (1 - taken)))
