"""What a set of measured cells says, as figures against the bars of the compute law. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vcuda.bench.figure import Figure
from vcuda.bench.matrix import LONGEST_MS, Row

SHORT_10S, SHORT_1S = 100.0, 45.0  # ms: the longest kernels for which the plain bars hold


def figures(rows: Sequence[Row], *, beside: Sequence[Row] = ()) -> Iterator[Figure]:
    """`beside`: the same cells under another limiter, compared cell by cell."""
    scope = [row for row in rows if row.in_scope]
    ten, one = (_up_to(scope, ms) for ms in (SHORT_10S, SHORT_1S))
    ratio, ratio_to = _ratio(ten, beside)
    if not ten or not one:
        return
    of = f"of {len(scope)} cells in scope ({len(rows)} measured)"
    yield Figure(
        name="vcuda.share.error.10s",
        value=max(row.error10 for row in ten),
        unit="points",
        bar=2,
        control=min(row.control10 for row in ten),
        ratio=ratio,
        ratio_to=ratio_to,
        method=f"worst 10 s window {of}, kernels up to {SHORT_10S:g} ms; control: limiter off, the cell where that errs least",
    )
    yield Figure(
        name="vcuda.share.error.1s",
        value=max(row.error1 for row in one),
        unit="points",
        bar=5,
        control=min(row.control1 for row in one),
        method=f"worst 1 s window {of}, kernels up to {SHORT_1S:g} ms; control: limiter off, the cell where that errs least",
    )
    yield Figure(
        name="vcuda.share.used",
        value=min(row.used for row in ten),
        unit="%",
        bar=95,
        least=True,
        method=f"least used part of the allowed share {of}, kernels up to {SHORT_10S:g} ms; allowed: the limit, or what they take without one",
    )
    synchronous = [row for row in ten if row.of.how == "sync"]
    if synchronous:
        yield Figure(
            name="vcuda.share.used.sync",
            value=min(row.used for row in synchronous),
            unit="%",
            bar=95,
            least=True,
            method="the same of programs that wait for each kernel",
        )
    yield Figure(
        name="vcuda.share.kept",
        value=100 * sum(row.keeps for row in scope) / len(scope),
        unit="%",
        bar=99,
        least=True,
        control=100 * sum(_control_keeps(row) for row in scope) / len(scope),
        method=f"part {of} that keep all three bars, those of 50 ms and more by the law's rule for kernels that fill a window; control: limiter off",
    )


def _up_to(rows: Iterable[Row], ms: float) -> list[Row]:
    return [row for row in rows if LONGEST_MS[row.of.kernel] <= ms]


def _control_keeps(row: Row) -> bool:
    ten, one, _ = row.bars()
    return row.control10 <= ten and row.control1 <= one


def _ratio(rows: Sequence[Row], beside: Sequence[Row]) -> tuple[float | None, str | None]:
    """Mean error of the other limiter over ours, in the cells that both have."""
    theirs = {row.cell: row for row in beside}
    both = [(row.error10, theirs[row.cell].error10) for row in rows if row.cell in theirs]
    if not both:
        return None, None
    ours, other = (sum(column) / len(both) for column in zip(*both, strict=True))
    return other / max(ours, 0.01), f"ours, the mean error of {beside[0].limiter}"


def theirs(rows: Sequence[Row], other: Sequence[Row]) -> Iterator[Figure]:
    """Another limiter in the same cells: told beside ours, without a bar of its own (its own error is no failure of this tree)."""
    scope = {row.cell for row in rows if row.in_scope}
    judged = [row for row in other if row.cell in scope]
    if not judged:
        return
    name = judged[0].limiter
    worst = max(row.error10 for row in judged)
    yield Figure(
        name=f"vcuda.beside.{name}.error.10s",
        value=worst,
        unit="points",
        bar=100,
        method=f"worst 10 s window of {name} in {len(judged)} of the same cells, same virtual time; it keeps the bars in "
        f"{100 * sum(row.keeps for row in judged) / len(judged):.0f} % of them; used share {min(row.used for row in judged):.0f} to "
        f"{max(row.used for row in judged):.0f} %",
    )
