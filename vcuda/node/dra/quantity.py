"""Kubernetes quantities ("8Gi", "1500m", "12e6") as whole numbers. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

from vcuda.node.errors import Invalid

_FACTORS: Final = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}
_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|(|[KMGTPE]i|[numkMGTPE]))")
_LARGEST: Final = 2**63


def parse_quantity(text: object) -> int:
    """Rounded up, as the scheduler does. Raises Invalid for what is no quantity, is negative or does not fit 64 bits."""
    found = _FORM.fullmatch(str(text))
    if found is None:
        raise Invalid(f"{text!r} is not a quantity.")
    number, power, suffix = found.groups()
    factor = _FACTORS[suffix] if power is None else Decimal(10) ** int(power)
    value = (Decimal(number) * factor).to_integral_value(ROUND_CEILING)
    if not 0 <= value < _LARGEST:
        raise Invalid(f"The quantity {text!r} is out of range.")
    return int(value)
