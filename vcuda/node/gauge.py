"""The busy share of one second, of a claim from the driver's windows and of a card from the driver's own figure. Pure.

Ticks and windows have nothing to do with each other: a window (a sixth of a second) is the newest one at one tick or at two. So a
window is counted when it is new, once, with its own length; time in which the card was seen idle is counted as it passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from vcuda.node.utilisation import Measured, Utilisation


@dataclass(slots=True)
class Gauge:
    """Of a claim on a card."""

    _busy_ns: int = 0
    _length_ns: int = 0
    _counted_ns: int | None = None  # node time up to which everything is counted
    _newest_us: int = 0  # end of the newest window seen, in the driver's clock
    _idle_ns: int = 0  # idle time counted already that the next new window's gap will contain once more

    def tick(self, busy_ns: int | None, measured: Measured | None, utilisation: Utilisation, now_ns: int) -> None:
        """`busy_ns` of these processes in what was `measured` at this tick; both None where no window has ended."""
        new, self._newest_us = utilisation.newest_us != self._newest_us, utilisation.newest_us
        if new and measured is not None and busy_ns is not None:
            self._add(busy_ns, max(busy_ns, measured.length_ns - self._idle_ns))
        if new:  # after a long gap nothing was measured; such a window only begins the count
            self._counted_ns, self._idle_ns = now_ns, 0
        elif utilisation.supported and not utilisation.percents:
            idle_ns = now_ns - self._counted_ns if self._counted_ns is not None else 0
            self._add(0, idle_ns)
            self._counted_ns, self._idle_ns = now_ns, self._idle_ns + idle_ns

    def _add(self, busy_ns: int, length_ns: int) -> None:
        self._busy_ns += busy_ns
        self._length_ns += length_ns

    def take(self) -> int | None:
        """The mean since the last call, in per mille; None: nothing was told in that time."""
        mean = min(1000, round(1000 * self._busy_ns / self._length_ns)) if self._length_ns else None
        self._busy_ns = self._length_ns = 0
        return mean


@dataclass(slots=True)
class Mean:
    """Of a card: its own figure also counts who is not in the list of processes, and is told without the window that it is of."""

    _area: float = 0.0
    _length_ns: int = 0

    def add(self, percent: int | None, period_ns: int) -> None:
        if percent is not None and period_ns > 0:
            self._area += percent * period_ns
            self._length_ns += period_ns

    def take(self) -> int | None:
        """The mean since the last call, in per mille; None: nothing was told in that time."""
        mean = round(10 * self._area / self._length_ns) if self._length_ns else None
        self._area, self._length_ns = 0.0, 0
        return mean
