"""The driver's figures per process, made steady: which window is new, what holds between windows, who is idle. Pure.

The driver measures in windows of its own (a sixth of a second on most cards) and answers "nothing" both when no new
window has ended and when nobody was busy in it; the card's own figure tells the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vcuda.node.nvml import Busy, Look

_SECOND: Final = 1_000_000_000
_LONGEST_NS: Final = 1_500_000_000  # a longer gap between windows hides some: they are not added up


@dataclass(frozen=True, slots=True)
class Measured:
    """A window of the driver that has ended since the last look. Per cent by process id, and for the whole card."""

    length_ns: int
    percents: Mapping[int, int]
    card: int | None


@dataclass(slots=True)
class Utilisation:
    """One card."""

    supported: bool = True
    percents: Mapping[int, int] = field(default_factory=dict)
    newest_us: int = 0  # end of the newest window seen, in the driver's clock
    _seen_ns: int = 0
    _chained: bool = False  # the window before the newest one was seen, too

    def feed(self, look: Look, now_ns: int) -> Measured | None:
        """Take a look at node time `now_ns`; a whole window that has just ended, or None."""
        if look.busy is None:
            self.supported = bool(look.fault)
            return None
        new = [sample for sample in look.busy if sample.at_us > self.newest_us]
        if new:
            return self._advance(new, look, now_ns)
        if look.percent == 0 or now_ns - self._seen_ns > _SECOND:
            self.percents, self._chained = {}, False
        return None

    def of(self, pids: Collection[int]) -> int | None:
        """Per cent of the card that these processes use together; None where the driver does not tell."""
        return min(100, sum(self.percents.get(pid, 0) for pid in pids)) if self.supported else None

    def _advance(self, new: Sequence[Busy], look: Look, now_ns: int) -> Measured | None:
        newest = max(sample.at_us for sample in new)
        length = (newest - self.newest_us) * 1000
        ordered = sorted(new, key=lambda sample: sample.at_us)
        self.supported = True
        self.percents = {sample.pid: sample.percent for sample in ordered}
        whole = self._chained and 0 < length <= _LONGEST_NS
        self.newest_us, self._seen_ns, self._chained = newest, now_ns, True
        return Measured(length, self.percents, look.percent) if whole else None
