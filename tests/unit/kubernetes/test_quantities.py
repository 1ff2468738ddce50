"""Quantities: read as Kubernetes reads them, written so that they are read back exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import quantities


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("300", 300), ("8Gi", 8 * 1024**3), ("1.5Gi", 3 * 1024**3 // 2), ("1k", 1000), ("12e3", 12_000), ("1E", 10**18),
        ("5E-1", 1), ("1500m", 2), ("100u", 1), (".5Mi", 512 * 1024), ("79Gi", 79 * 1024**3), (42, 42), ("2.", 2),
    ],
)  # fmt: skip
def test_whole_amounts_round_up(text: str, value: int) -> None:
    assert quantities.whole(text) == value


@pytest.mark.parametrize(("text", "value"), [("2", 2000), ("250m", 250), ("0.1", 100), ("1500u", 2)])
def test_cpu_is_counted_in_thousandths(text: str, value: int) -> None:
    assert quantities.milli(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "--1", "1e", "∞"])
def test_what_is_no_quantity_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantities.whole(text)


@given(st.integers(0, 2**60))
def test_bytes_are_read_as_they_were_written(count: int) -> None:
    assert quantities.whole(quantities.bytes_text(count)) == count


@given(st.integers(0, 10**7))
def test_cpu_is_read_as_it_was_written(count: int) -> None:
    assert quantities.milli(quantities.milli_text(count)) == count
