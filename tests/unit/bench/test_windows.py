"""The arithmetic behind the shares that are reported: windows, settling, overrun, and the drawing of them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from vcuda.bench import judge
from vcuda.bench.figure import Figure
from vcuda.bench.matrix import NEIGHBOURS, Cell, Row, all_cells, few_cells, part_of
from vcuda.bench.plot import lines
from vcuda.bench.windows import Series, most_above, settled_after, worst_error

STEP = 0.05


def series(*parts: tuple[float, float]) -> Series:
    """Seconds and per cent of the card, one after the other."""
    busy = [0.0]
    for seconds, share in parts:
        busy += [busy[-1] + share / 100 * STEP * 1e9 * (number + 1) for number in range(round(seconds / STEP))]
    return Series(STEP, [round(value) for value in busy])


def test_every_window_is_looked_at() -> None:
    steady = series((3, 30))
    assert steady.mean() == pytest.approx(30)
    assert worst_error(steady.shares(1), 30) == pytest.approx(0, abs=1e-6)
    burst = series((2, 30), (0.5, 90), (2, 30))
    assert worst_error(burst.shares(1), 30) == pytest.approx(30)
    assert worst_error(burst.shares(1, 2.5), 30) == pytest.approx(0, abs=1e-6), "windows that begin after it"
    assert burst.mean(2, 2.5) == pytest.approx(90)


def test_a_step_is_over_when_all_later_windows_are_right() -> None:
    slow = series((5, 30), (0.4, 90), (5, 30))
    assert settled_after(slow, window=0.25, begin=5, target=30, within=5) == pytest.approx(0.4, abs=0.05)
    assert settled_after(series((10, 30)), window=0.25, begin=5, target=30, within=5) == 0
    never = settled_after(series((10, 90)), window=0.25, begin=5, target=30, within=5)
    assert never == pytest.approx(4.8, abs=0.06), "as long as was looked at"


def test_what_is_ahead_is_counted_from_the_lowest_point_before_it() -> None:
    late = series((1, 0), (1, 60), (1, 0))
    assert most_above(late, begin=0, end=3, target=30) == pytest.approx(300), "idle time before it is no credit"


def row(**more: object) -> Row:
    plain = Row(
        cell="1 ms/async/30/1/none",
        limiter="tessera",
        share=30,
        allowed=30,
        error10=0.5,
        error1=2,
        seconds=1,
        off=100,
        control10=70,
        control1=70,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def figure(rows: list[Row], name: str) -> Figure:
    return next(found for found in judge.figures(rows) if found.name == name)


def test_a_cell_is_judged_by_bars_that_whole_kernels_can_meet() -> None:
    assert row().keeps
    assert not row(error10=2.1).keeps
    assert not row(share=28).keeps
    assert row(cell="500 ms/async/30/1/none", error10=5, error1=50).keeps
    assert not row(off=34).in_scope, "the card could not give five points more"


def test_the_worst_cell_in_scope_is_what_is_reported() -> None:
    rows = [row(), row(cell="5 ms/sync/30/1/none", error10=3, error1=6, share=27), row(error10=90, off=31)]
    assert figure(rows, "vcuda.share.error.10s").value == 3
    assert figure(rows, "vcuda.share.used").value == pytest.approx(90)
    assert figure(rows, "vcuda.share.kept").value == pytest.approx(50)
    assert not figure(rows, "vcuda.share.error.10s").holds
    assert figure([row()], "vcuda.share.error.10s").holds


def test_a_control_that_keeps_the_bar_is_a_failure() -> None:
    assert not figure([row(control10=1.5)], "vcuda.share.error.10s").holds


def test_the_matrix_has_every_cell_once_and_its_short_form_is_part_of_it() -> None:
    cells = all_cells()
    assert len(cells) == len(set(cells)) == 1120
    assert set(few_cells()) <= set(cells)
    assert all(Cell(*cell.key.split("/")).kernel == cell.kernel for cell in few_cells())  # type: ignore[arg-type]
    assert {cell.neighbours for cell in few_cells()} == set(NEIGHBOURS)


def test_limits_of_a_cell_fit_on_a_card() -> None:
    assert all(cell.limit * 10 + sum(tenant.share for tenant in cell.others()) <= 950 for cell in all_cells())


def test_a_plot_is_sound_xml_and_stays_inside_its_frame() -> None:
    text = lines("a < b", {"x & y": [(0, 10), (5, 200)]}, across="s", up="%", top=100, mark=2)
    root = ElementTree.fromstring(text)
    points = [line.attrib["points"] for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert len(points) == 2
    assert all(0 <= float(number) <= 720 for line in points for pair in line.split() for number in pair.split(","))


@pytest.mark.parametrize("jobs", [1, 2, 3, 7])
def test_jobs_share_the_cells_and_keep_those_of_one_control_together(jobs: int) -> None:
    cells = all_cells()
    parts = [part_of(cells, part, jobs) for part in range(jobs)]
    assert sorted(cell for part in parts for cell in part) == sorted(cells)
    controls = [{cell.surroundings for cell in part} for part in parts]
    assert sum(map(len, controls)) == len(set().union(*controls))
