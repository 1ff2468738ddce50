"""One measured figure and how it is judged: a line of build/bench.jsonl."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`bar` is what the value must keep, at most or (`least`) at least. `control` is the same measurement without the mechanism."""

    name: str
    value: float
    unit: str
    bar: float
    least: bool = False
    control: float | None = None
    ratio_to: str | None = None
    ratio: float | None = None
    method: str = ""

    def keeps(self, value: float) -> bool:
        return value >= self.bar if self.least else value <= self.bar

    @property
    def holds(self) -> bool:
        """The bar is kept, and the control, where there is one, misses it: a check that cannot fail proves nothing."""
        return self.keeps(self.value) and (self.control is None or not self.keeps(self.control))

    def line(self) -> str:
        fields = {name: value for name, value in asdict(self).items() if name != "least"}
        return json.dumps(fields | {"holds": self.holds})


def report(figure: Figure, out: Path | None) -> None:
    """Say it on the terminal, and append it to the file."""
    mark = "ok  " if figure.holds else "MISS"
    control = "" if figure.control is None else f", control {figure.control:.4g}"
    bound = ">=" if figure.least else "<="
    print(
        f"{mark} {figure.name:32} {figure.value:10.4g} {figure.unit:8} (bar {bound} {figure.bar:g}{control})",
        flush=True,
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(figure.line() + "\n")
