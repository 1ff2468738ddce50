"""The slow multiplier of a claim: charged time is balanced against the driver's own measurement. Pure.

Integral control of the books, not of a gauge: what was charged too much or too little is summed, so noise averages out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LOWEST, HIGHEST = 0.1, 8.0
_SECOND: Final = 1_000_000_000
_STEEPEST: Final = 1.0  # more in one window is nonsense: somebody wrote into the ledger
_DELAY_NS: Final = 100_000_000  # how old the driver's figure is when we read it: one tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One measuring window of the driver, for one claim on one card. Times in ns of GPU time, `share` from 0 to 1."""

    length_ns: int
    charged_ns: int
    measured_ns: int  # utilisation of the claim's processes
    share: float
    largest_est_ns: int  # largest estimate that was charged lately
    unmeasured: bool  # a kernel of unknown cost was in flight, now or one window ago
    coherent: bool  # processes and card agree


def correct(m: float, window: Window) -> float:
    """The multiplier after this window, 0.1 to 8; unchanged where the window says nothing."""
    if not telling(window):
        return m
    length, delay = window.length_ns, _DELAY_NS
    tau = max(_SECOND, 3 * (length + delay), 4 * window.largest_est_ns / window.share)
    step = (window.charged_ns - window.measured_ns) / (window.share * min(tau, 60 * _SECOND))
    step = min(_STEEPEST, max(-_STEEPEST, step))
    return min(HIGHEST, max(LOWEST, m * math.exp(-step)))


def telling(window: Window) -> bool:
    idle = window.charged_ns < 0.01 * window.length_ns and window.measured_ns <= 0.02 * window.length_ns
    return not (idle or window.unmeasured or not window.coherent or window.share <= 0)
