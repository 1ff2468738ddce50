"""Whether programs of a claim go around the limiting library: what the driver shows and the books do not explain. Pure.

Three signs, each on its own enough, and each only when it stays:

- a process of the claim that the driver lists and that holds no slot of the books. The library takes the slot before the driver hears of
  the process, and the driver was asked before the books were read: a program that just starts is never one.
- bytes above the books, beyond what contexts and modules may weigh more than was measured: as much again as half of what a context weighs
  with this driver on this card, by the library's own measurement, for each context.
- a card that is busy for the claim while nothing was launched, copied or under way, for a whole second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MIB: Final = 1024**2
_TICKS: Final = 2  # that a sign must last; one may be a process that was ending
_CALM: Final = 20  # ticks without a sign before it is over
_LEAST: Final = 64 * MIB  # bytes of tolerance for each context
_BUSY_PERCENT: Final = 5  # of a process; less is noise of the driver's windows
_BUSY: Final = 0.1  # of a window, for a claim without any launch
_UNEXPLAINED_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One claim on one card at one tick. `strangers` are its processes without a slot: bytes by process id (None: not told)."""

    strangers: Mapping[int, int | None]
    beyond: int | None  # bytes that the driver shows above the books; None: not known
    contexts: int
    context_bytes: int  # what one weighs, by the library; 0: not measured yet
    percents: Mapping[int, int]  # of its processes, in the driver's newest window

    @property
    def tolerance(self) -> int:
        return max(1, self.contexts) * max(_LEAST, self.context_bytes // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One measuring window of the driver: the claim's busy time in it, and what its books counted up to its end."""

    length_ns: int
    busy_ns: int
    counted: tuple[int, ...]  # launches and copied bytes since the claim was made
    under_way: bool  # something was launched and is not done


@dataclass(slots=True)
class Watch:
    """Of one claim on one card. `evidence` is what was seen, for as long as it is; None: nothing."""

    evidence: dict[str, Any] | None = None
    pids: frozenset[int] = frozenset()  # that the evidence names
    _lasted: int = 0
    _calm: int = 0
    _counted: tuple[int, ...] | None = None
    _unexplained_ns: int = 0
    _unexplained: float = 0.0  # of the newest such window
    _seen: dict[int, int] = field(default_factory=dict)  # ticks by stranger

    def feed(self, sight: Sight) -> bool:
        """Returns whether something has begun."""
        self._seen = {pid: self._seen.get(pid, 0) + 1 for pid in sight.strangers}
        lasting = {pid: sight.strangers[pid] for pid, ticks in self._seen.items() if ticks >= _TICKS}
        beyond = sight.beyond or 0
        self._lasted = self._lasted + 1 if beyond > sight.tolerance else 0
        permille = self._busy(sight, lasting)
        uncounted = max(beyond if self._lasted >= _TICKS else 0, sum(filter(None, lasting.values())))
        if not (uncounted or permille):
            self._rest()
            return False
        began, self._calm = self.evidence is None, 0
        self.pids = frozenset(lasting)
        self.evidence = {"uncounted_bytes": uncounted, "busy_permille": permille}
        return began

    def window(self, window: Window) -> None:
        quiet = self._counted == window.counted and not window.under_way
        busy = window.busy_ns / window.length_ns if window.length_ns else 0.0
        self._counted = window.counted
        if quiet and busy > _BUSY:
            self._unexplained_ns += window.length_ns
            self._unexplained = busy
        else:
            self._unexplained_ns = 0

    def _busy(self, sight: Sight, lasting: Mapping[int, int | None]) -> int:
        """Per mille of the card."""
        strangers = sum(sight.percents.get(pid, 0) for pid in lasting if sight.percents.get(pid, 0) > _BUSY_PERCENT)
        silent = self._unexplained if self._unexplained_ns >= _UNEXPLAINED_NS else 0.0
        return min(1000, max(10 * strangers, round(1000 * silent)))

    def _rest(self) -> None:
        self._calm += 1
        if self._calm >= _CALM:
            self.evidence, self.pids = None, frozenset()
