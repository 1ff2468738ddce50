"""What was charged in a window for work that is over: exact in the sum, whatever the multiplier does meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.control import _charged_for_work_done, _place
from vcuda.node.kept import Window

MS = 1_000_000
TICK = 100 * MS


def page(charged: int, in_flight: int) -> Any:
    return SimpleNamespace(device=SimpleNamespace(charged_ns=charged), outstanding_ns=in_flight)


class Books:
    """Stands for a claim whose pages are set by hand."""

    def __init__(self) -> None:
        self.two: tuple[Any, Any, int] | None = None

    def pages(self, _part: Any) -> tuple[Any, Any, int] | None:
        return self.two


def part(m: float = 1.0) -> Any:
    return SimpleNamespace(m=m, window=Window())


@pytest.mark.parametrize(
    ("age_us", "place"),
    [(0, 1.0), (25_000, 0.75), (100_000, 0.0), (150_000, 0.0), (None, 0.5), (-1, 0.5), (10**9, 0.5)],
)
def test_a_window_ended_where_its_stamp_says_or_in_the_middle_where_that_makes_no_sense(
    age_us: int | None, place: float
) -> None:
    assert _place(age_us, TICK) == pytest.approx(place)


def test_the_books_are_read_where_the_window_ended() -> None:
    books, one = Books(), part()
    books.two = page(0, 0), page(100 * MS, 0), TICK
    assert _charged_for_work_done(books, one, 75_000) is None, "nothing is known of the window before"  # type: ignore[arg-type]
    books.two = page(200 * MS, 0), page(300 * MS, 0), TICK
    assert _charged_for_work_done(books, one, 25_000) == 250 * MS  # type: ignore[arg-type]


def test_a_rise_of_the_multiplier_makes_no_work_undone() -> None:
    """Sixteen processes with 2 s in flight, and nothing new: the window is empty, whatever the multiplier has become."""
    books, one = Books(), part()
    books.two = page(2_000 * MS, 2_000 * MS), page(2_000 * MS, 2_000 * MS), TICK
    _charged_for_work_done(books, one, 0)  # type: ignore[arg-type]
    one.m = 1.5
    assert _charged_for_work_done(books, one, 0) == 0  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.floats(0.5, 2.0)), min_size=1, max_size=12))
def test_all_that_was_charged_is_done_in_the_end(steps: list[tuple[int, int, float]]) -> None:
    """Each step launches and finishes so many ms of work at a multiplier; the sum over the windows is what was charged."""
    books, one = Books(), part()
    books.two = page(0, 0), page(0, 0), TICK
    _charged_for_work_done(books, one, 0)  # type: ignore[arg-type]
    charged = in_flight = total = 0
    for launched, finished, m in [*steps, (0, 10_000, 1.0)]:
        one.m = m
        charged += round(launched * m) * MS
        in_flight = max(0, in_flight + launched - finished)
        books.two = page(charged, in_flight * MS), page(charged, in_flight * MS), TICK
        done = _charged_for_work_done(books, one, 0)  # type: ignore[arg-type]
        assert done is not None
        total += done
    assert total == charged
