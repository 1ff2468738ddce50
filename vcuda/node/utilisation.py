"""The driver's figures per process, made steady: which window is new, what holds between windows, who is idle. Pure.

The driver measures in windows of its own (a sixth of a second on most cards), lists only processes that were busy in one, and answers
"nothing" both when no new window has ended and when nobody was busy in it; the card's own figure tells the two apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vcuda.node.nvml import Busy, Look

_SECOND: Final = 1_000_000_000
_AWAY_NS: Final = 1_500_000_000  # windows may be lost while nobody looks for so long: books are not compared over it
_LONGEST_WINDOW_US: Final = 1_000_000  # by nvml.h; more: two that follow each other have not been seen yet
_TOLERANCE: Final = 10  # points of the card between it and the sum of its processes
_SAME_US: Final = 10_000  # stamps of one window differ by microseconds from call to call; windows are far longer


@dataclass(frozen=True, slots=True)
class Measured:
    """The time between two windows' ends, whole windows only. GPU time in ns by process id."""

    length_ns: int
    busy_ns: Mapping[int, int]
    coherent: bool  # in the newest window, the processes and the card's own figure can be two views of one thing


@dataclass(slots=True)
class Utilisation:
    """One card."""

    supported: bool = True
    percents: Mapping[int, int] = field(default_factory=dict)  # of the newest window; empty when the card is idle
    newest_us: int = 0  # end of the newest window seen, in the driver's clock
    _seen_ns: int = 0
    _looked_ns: int | None = None  # node time of the last answer
    _whole: bool = True  # no window was lost since the newest one
    _window_us: int | None = None  # length of the driver's windows: the shortest gap between two

    def feed(self, look: Look, now_ns: int) -> Measured | None:
        """Take a look at node time `now_ns`; what was measured since the last new window, or None when there is nothing new."""
        if look.busy is None:
            self.supported = bool(look.fault)
            return None
        self._whole &= self._looked_ns is not None and now_ns - self._looked_ns <= _AWAY_NS
        self._looked_ns = now_ns
        windows = _windows([sample for sample in look.busy if sample.at_us > self.newest_us + _SAME_US])
        if windows:
            return self._advance(windows, look.percent, now_ns)
        if look.percent == 0 or now_ns - self._seen_ns > _SECOND:
            self.percents = {}
        return None

    def of(self, pids: Collection[int]) -> int | None:
        """Per cent of the card that these processes use together; None where the driver does not tell."""
        return min(100, sum(self.percents.get(pid, 0) for pid in pids)) if self.supported else None

    def _advance(self, windows: Mapping[int, Mapping[int, int]], card: int | None, now_ns: int) -> Measured | None:
        before, busy, newest = self.newest_us, dict[int, int](), max(windows)
        for end_us, percents in windows.items():
            length_us = self._length(end_us - self.newest_us) if self.newest_us else 0
            for pid, percent in unrounded(percents, card if end_us == newest else None).items():
                busy[pid] = busy.get(pid, 0) + round(percent * length_us * 10)
            self.newest_us, self.percents = end_us, percents
        self.supported, self._seen_ns = True, now_ns
        whole, self._whole = self._whole, True
        if not before or not whole or (self._window_us or 0) > _LONGEST_WINDOW_US:
            return None
        length = (self.newest_us - before) * 1000
        return Measured(length, busy, card is None or abs(sum(self.percents.values()) - card) <= _TOLERANCE)

    def _length(self, gap_us: int) -> int:
        """Of a window that ended `gap_us` after the one before it: windows in which nobody was busy are not listed."""
        self._window_us = min(gap_us, self._window_us or gap_us)
        return self._window_us


def unrounded(percents: Mapping[int, int], card: int | None) -> dict[int, float]:
    """Per cent by process, closer to what they were before the driver rounded each: their sum is the card's own figure.

    Sixteen processes with one kernel of 0.6 % each in a window count as 1 % each, and a claim of many small processes would seem busier than it is.
    Processes with the same figure are taken to be alike and to be rounded alike, so n of them can be off by n times what one can, and what the
    sum has too much is most likely theirs: it is divided by the squares of how many they are, as least squares would.
    What is more than rounding, half a point for each of them and the card, is left: then nothing is known better.
    """
    excess = sum(percents.values()) - card if card is not None else 0
    if not percents or abs(excess) > (len(percents) + 1) / 2:
        return {pid: float(percent) for pid, percent in percents.items()}
    alike = Counter(percents.values())
    each = excess / sum(count * count for count in alike.values())
    return {pid: max(0.0, percent - each * alike[percent]) for pid, percent in percents.items()}


def _windows(samples: Sequence[Busy]) -> dict[int, dict[int, int]]:
    """Per cent by process, by window (named by its end), oldest first."""
    windows: dict[int, dict[int, int]] = {}
    end = 0
    for sample in sorted(samples, key=lambda sample: sample.at_us):
        if not windows or sample.at_us > end + _SAME_US:
            end = sample.at_us
        windows.setdefault(end, {})[sample.pid] = sample.percent
    return windows
