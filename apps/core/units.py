"""Quantities for people: bytes as MiB or GiB, per mille as per cent, thousandths of a core as cores. And what the quota counts."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.share import GIB, MIB

_FACTORS = {
    "": 1,
    "b": 1,
    "kib": 1024,
    "mib": MIB,
    "gib": GIB,
    "tib": 1024 * GIB,
    "k": 1024,
    "m": MIB,
    "g": GIB,
    "t": 1024 * GIB,
}

_MEMORY = re.compile(r"(?P<number>\d{1,15}(\.\d{1,6})?)\s*(?P<unit>[a-z]*)", re.ASCII)
_PERCENT = re.compile(r"(?P<number>\d{1,9}(\.\d{1,6})?)\s*%?", re.ASCII)


def _short(value: Decimal, places: int = 1) -> str:
    return f"{value:.{places}f}".rstrip("0").rstrip(".") if places else f"{value:.0f}"


def format_bytes(value: int) -> str:
    """`8 GiB`, `1.5 GiB`, `512 MiB`; never rounds a non-zero amount to nothing."""
    if abs(value) >= GIB:
        return f"{_short(Decimal(value) / GIB)} GiB"
    if abs(value) >= MIB:
        return f"{_short(Decimal(value) / MIB)} MiB"
    return f"{value} B"


def parse_bytes(text: str) -> int:
    """Bytes of `8 GiB`, `8g`, `512MiB`, `1024`. Raises ValueError with a sentence."""
    found = _MEMORY.fullmatch(text.strip().lower())
    if found is None or found["unit"] not in _FACTORS:
        raise ValueError(f"“{text}” is no amount of memory; write it like 8 GiB or 512 MiB")
    return int(Decimal(found["number"]) * _FACTORS[found["unit"]])


def format_permille(value: int) -> str:
    """Per mille of one card as per cent: `30 %`, `12.5 %`; 2500 ‰ are `250 %`."""
    return f"{_short(Decimal(value) / 10)} %"


def parse_percent(text: str) -> int:
    """Per mille of `30`, `30 %`, `12.5%`. Raises ValueError with a sentence."""
    found = _PERCENT.fullmatch(text.strip())
    permille = Decimal(found["number"]) * 10 if found else Decimal(0)
    if found is None or permille != permille.to_integral_value():
        raise ValueError(f"“{text}” is no percentage in steps of 0.1 %; write it like 30 or 12.5 %")
    return int(permille)


def format_milli(value: int) -> str:
    """Thousandths of a core as cores: `2`, `0.5`."""
    return _short(Decimal(value) / 1000, 3)


def format_count(value: int) -> str:
    return str(value)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One thing that a quota limits."""

    key: str
    label: Any  # lazy translation
    format: Callable[[int], str]


DIMENSIONS: dict[str, Dimension] = {
    d.key: d
    for d in (
        Dimension("gpu_memory", _("GPU memory"), format_bytes),
        Dimension("gpu_compute", _("GPU compute"), format_permille),
        Dimension("cpu_milli", _("CPU cores"), format_milli),
        Dimension("ram", _("RAM"), format_bytes),
        Dimension("running", _("running at once"), format_count),
        Dimension("running_per_user", _("running at once per person"), format_count),
        Dimension("pending", _("waiting in the queue"), format_count),
    )
}


def format_amount(dimension: str, value: int) -> str:
    known = DIMENSIONS.get(dimension)
    return known.format(value) if known else str(value)


def format_evidence(key: str, value: Any) -> str:
    """Evidence for a sentence, by the unit in its name: `_bytes`, `_permille`, `_milli`, `_seconds`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if key.endswith("_bytes"):
        return format_bytes(value)
    if key.endswith("_permille"):
        return format_permille(value)
    if key.endswith("_milli"):
        return format_milli(value)
    if key.endswith("_seconds"):
        return format_duration(value)
    return str(value)


def format_duration(seconds: int) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
