"""Shares over sliding windows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Series:
    """GPU time of one group of processes, looked at every `step` seconds of card time."""

    step: float
    busy_ns: list[int] = field(default_factory=list)

    def shares(self, window: float, begin: float = 0, end: float | None = None) -> list[float]:
        """Per cent of the card in every window of `window` seconds that lies between `begin` and `end` seconds."""
        wide, first = round(window / self.step), round(begin / self.step)
        last = len(self.busy_ns) if end is None else min(len(self.busy_ns), round(end / self.step) + 1)
        ns = window * 1e7
        return [(self.busy_ns[i + wide] - self.busy_ns[i]) / ns for i in range(first, last - wide)]

    def mean(self, begin: float = 0, end: float | None = None) -> float:
        """Per cent of the card from `begin` to `end`."""
        first = round(begin / self.step)
        last = len(self.busy_ns) - 1 if end is None else round(end / self.step)
        return (self.busy_ns[last] - self.busy_ns[first]) / ((last - first) * self.step * 1e7)


def worst_error(shares: Sequence[float], target: float) -> float:
    """The largest distance of any window from the target, in points."""
    return max(abs(share - target) for share in shares)


def settled_after(
    series: Series, *, window: float, begin: float, target: float, within: float, end: float | None = None
) -> float:
    """Seconds after `begin` from which on every window that begins later stays within so many points of the target.

    The length of what was looked at when there is no such moment: "not within that time".
    """
    shares = series.shares(window, begin, end)
    outside = [index for index, share in enumerate(shares) if abs(share - target) > within]
    return (outside[-1] + 1) * series.step if outside else 0.0


def most_above(series: Series, *, begin: float, end: float, target: float) -> float:
    """The most GPU time in ms by which the group was ever ahead of its target since any earlier moment."""
    first, last = round(begin / series.step), round(end / series.step)
    allowed = target * series.step * 1e7
    lead = most = 0.0
    for before, after in zip(series.busy_ns[first:last], series.busy_ns[first + 1 : last + 1], strict=False):
        lead = max(0.0, lead + (after - before) - allowed)
        most = max(most, lead)
    return most / 1e6
