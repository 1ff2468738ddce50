"""Series as the columns that chart.js draws. Pure: what was read in, what is sent out."""

from collections.abc import Mapping, Sequence

Column = list[int | None]
_OWN = {
    "compute_used": "used",
    "compute_limit": "limit",
    "memory_used": "memory",
    "memory_limit": "memory_limit",
    "throttled_ms": "throttled",
}
_CARD = {"compute_used": "card", "memory_used": "card_memory"}


def align(series: Sequence[tuple[str, Mapping[str, Sequence[int | None]]]]) -> dict[str, Column]:
    """Several series (prefix, columns with their own `at`) over one rising `at`; where a series has no point it has None."""
    times = sorted({at for _prefix, columns in series for at in columns["at"] if at is not None})
    place = {at: index for index, at in enumerate(times)}
    merged: dict[str, Column] = {"at": list(times)}
    for prefix, columns in series:
        for name, values in columns.items():
            if name == "at":
                continue
            column: Column = [None] * len(times)
            for at, value in zip(columns["at"], values, strict=True):
                if at is not None:
                    column[place[at]] = value
            merged[f"{prefix}{name}"] = column
    return merged


def own(columns: Mapping[str, Sequence[int | None]]) -> dict[str, Sequence[int | None]]:
    """Of a run's figures those that its charts show, under the names that they have there."""
    return _named(columns, _OWN)


def card(columns: Mapping[str, Sequence[int | None]]) -> dict[str, Sequence[int | None]]:
    """Of a card's figures those that a run's charts show beside its own."""
    return _named(columns, _CARD)


def _named(columns: Mapping[str, Sequence[int | None]], names: Mapping[str, str]) -> dict[str, Sequence[int | None]]:
    return {"at": columns["at"], **{new: columns[old] for old, new in names.items()}}
