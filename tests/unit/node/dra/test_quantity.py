"""Quantities, as the API server and people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcuda.node.dra.quantity import parse_quantity
from vcuda.node.errors import Invalid


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8Gi", 8 * 1024**3),
        ("80994Mi", 80994 * 1024**2),
        ("300", 300),
        (300, 300),
        ("0", 0),
        ("1k", 1000),
        ("1.5Gi", 1536 * 1024**2),
        ("1500m", 2),
        ("1", 1),
        ("12e6", 12_000_000),
        ("12E6", 12_000_000),
        ("1E", 10**18),
        ("2M", 2_000_000),
        ("1u", 1),
        (".5Ki", 512),
        ("+3", 3),
    ],
)
def test_a_quantity_is_a_whole_number_rounded_up(text: object, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "-1", "1e", "one", None, "10E", "10Ei", "1e99999999", "NaN", "1Gi "]
)
def test_what_is_none_is_refused(text: object) -> None:
    with pytest.raises(Invalid):
        parse_quantity(text)


@given(st.integers(0, 2**43 - 1))
def test_mebibytes_read_back_exactly(count: int) -> None:
    assert parse_quantity(f"{count}Mi") == count * 1024**2
