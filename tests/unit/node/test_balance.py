"""The multiplier: follows the books, ignores what tells nothing, and settles."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.balance import Window, correct, telling

MS = 1_000_000
FAIR = Window(
    length_ns=200 * MS,
    charged_ns=60 * MS,
    measured_ns=60 * MS,
    share=0.3,
    largest_est_ns=MS,
    unmeasured=False,
    coherent=True,
)


def test_equal_books_change_nothing() -> None:
    assert correct(1.3, FAIR) == 1.3


def test_charging_too_much_lowers_the_multiplier_and_too_little_raises_it() -> None:
    assert correct(1.0, replace(FAIR, charged_ns=80 * MS)) < 1.0
    assert correct(1.0, replace(FAIR, charged_ns=40 * MS)) > 1.0


def test_windows_that_tell_nothing_change_nothing() -> None:
    off = replace(FAIR, charged_ns=120 * MS)
    assert telling(off)
    for mute in (
        replace(off, unmeasured=True),
        replace(off, coherent=False),
        replace(off, charged_ns=1 * MS, measured_ns=2 * MS),
    ):
        assert correct(1.0, mute) == 1.0


def test_long_kernels_make_it_slower() -> None:
    off = replace(FAIR, charged_ns=90 * MS)
    quick, slow = correct(1.0, off), correct(1.0, replace(off, largest_est_ns=500 * MS))
    assert quick < slow < 1.0


@given(st.floats(0.1, 8), st.integers(0, 10_000 * MS), st.integers(0, 1000 * MS), st.floats(0.001, 1))
def test_it_stays_within_its_bounds(m: float, charged: int, measured: int, share: float) -> None:
    window = replace(FAIR, charged_ns=charged, measured_ns=measured, share=share)
    assert 0.1 <= correct(m, window) <= 8


@given(st.floats(0.25, 4), st.sampled_from([0.1, 0.3, 0.6, 0.9]))
def test_it_settles_on_the_true_ratio_of_cost_to_estimate(ratio: float, share: float) -> None:
    """A claim at its limit whose kernels cost `ratio` times their estimate: charged m·est, used est·ratio."""
    m = 1.0
    for _ in range(400):
        charged = share * FAIR.length_ns  # at the limit, what is charged per window is the share
        used = min(float(FAIR.length_ns), charged * ratio / m)
        m = correct(m, replace(FAIR, charged_ns=round(charged), measured_ns=round(used), share=share))
    assert abs(m - ratio) <= 0.02 * ratio or (ratio * share > 1 and m > 1)
