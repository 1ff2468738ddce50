"""Kubernetes' quantities as integers. Fractions are rounded up, as the API server does: nothing that was asked for gets lost."""

import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

from apps.core.share import MIB

_FORM = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))((?P<unit>[numkMGTPE]|[KMGTPE]i)|[eE](?P<power>[+-]?\d{1,3}))?"
)
_UNITS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}


def _value(quantity: Any) -> Decimal:
    found = _FORM.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f"“{quantity}” is no quantity")
    factor = _UNITS[found["unit"]] if found["unit"] else Decimal(10) ** int(found["power"] or 0)
    return Decimal(found["number"]) * factor


def whole(quantity: Any) -> int:
    """Bytes, cards, per mille."""
    return int(_value(quantity).to_integral_value(ROUND_CEILING))


def milli(quantity: Any) -> int:
    """Thousandths, as CPU is counted."""
    return int((_value(quantity) * 1000).to_integral_value(ROUND_CEILING))


def bytes_text(count: int) -> str:
    """The shortest exact form, so that manifests can be read and equal amounts are written equally."""
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        size = 1024**power
        if count and count % size == 0:
            return f"{count // size}{letter}i"
    return str(count)


def milli_text(count: int) -> str:
    return str(count // 1000) if count % 1000 == 0 else f"{count}m"


def mebibytes(count: int) -> int:
    return count // MIB
