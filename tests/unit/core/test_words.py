"""Slugs, units, reasons and shares: what people read and hosts are called."""

from uuid import UUID

import pytest
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from apps.core import units
from apps.core.reason_texts import CATALOGUE
from apps.core.reasons import Severity, explain
from apps.core.share import GIB, MIB, GpuShare, cut_share
from apps.core.slugs import slug_for

ONE = UUID(int=1)


@pytest.mark.parametrize(
    ("name", "head"), [("Große Läufe", "groe-laufe"), ("训练", "x"), ("  --  ", "x"), ("a" * 90, "a" * 36)]
)
def test_a_slug_is_readable_where_the_name_allows_it(name: str, head: str) -> None:
    assert slug_for(name, ONE).rsplit("-", 1)[0] == head


@given(st.text(), st.uuids(), st.text(), st.uuids())
def test_slugs_are_host_names_and_different_for_different_ids(
    name: str, one: UUID, other_name: str, other: UUID
) -> None:
    slug, other_slug = slug_for(name, one), slug_for(other_name, other)
    assert len(slug) <= 63
    assert slug.isascii()
    assert slug.replace("-", "").isalnum()
    assert slug == slug.lower().strip("-")
    assert (slug == other_slug) <= (one == other)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (512 * MIB, "512 MiB"),
        (8 * GIB, "8 GiB"),
        (GIB * 3 // 2, "1.5 GiB"),
        (80 * GIB, "80 GiB"),
        (100 * GIB, "100 GiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits_them(value: int, text: str) -> None:
    assert units.format_bytes(value) == text


@given(st.integers(0, 4096))
def test_whole_gibibytes_are_read_as_they_were_written(value: int) -> None:
    assert units.parse_bytes(units.format_bytes(value * GIB)) == value * GIB


@given(st.integers(0, 10_000))
def test_percentages_are_read_as_they_were_written(value: int) -> None:
    assert units.parse_percent(units.format_permille(value)) == value


@pytest.mark.parametrize("text", ["", "eight", "-1 GiB", "8 GX", "nan", "1e999 GiB", "inf"])
def test_nonsense_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount of memory"):
        units.parse_bytes(text)


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (720, "12 min"), (12_000, "3 h 20 min"), (7200, "2 h")])
def test_durations_are_told_shortly(seconds: int, text: str) -> None:
    assert units.format_duration(seconds) == text


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("code", CATALOGUE)
def test_every_reason_can_be_told_without_any_evidence(code: str, language: str) -> None:
    with override(language):
        told = explain(code)
    assert told.title
    assert told.text
    assert "{" not in told.title + told.text + told.action


@pytest.mark.parametrize(
    "code", [c for c, reason in CATALOGUE.items() if reason.severity in (Severity.ERROR, Severity.WAITING)]
)
def test_whoever_waits_or_failed_is_told_what_to_do(code: str) -> None:
    assert explain(code).action


def test_evidence_is_told_in_the_units_of_its_dimension() -> None:
    told = explain(
        "waiting_quota",
        {
            "tenant": "Lab",
            "dimension": "gpu_memory",
            "asked": 8 * GIB,
            "used": 36 * GIB,
            "limit": 40 * GIB,
            "free": 4 * GIB,
        },
    )
    assert told.text == "This needs 8 GiB of GPU memory; Lab uses 36 GiB of 40 GiB, so 4 GiB is left."


def test_a_count_has_words_of_its_own() -> None:
    told = explain(
        "waiting_quota",
        {"tenant": "Lab", "dimension": "running_per_user", "asked": 1, "used": 2, "limit": 2, "free": 0},
    )
    assert told.text == "You already run 2 of at most 2 at once in Lab."


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert "odd_thing" in explain("odd_thing").text


def test_evidence_cannot_smuggle_format_fields() -> None:
    assert "{code}" in explain("stopped_by_manager", {"by": "{code}", "why": "{0.__class__}"}).text


shares = st.builds(
    lambda count, memory, compute, more: GpuShare(count, memory, compute, min(1000, compute + more)),
    st.integers(1, 8), st.integers(MIB, 64 * GIB), st.integers(1, 1000), st.integers(0, 500),
)  # fmt: skip


@given(shares, st.integers(0, 200 * GIB), st.integers(0, 9000))
def test_a_share_is_cut_to_the_room_and_never_beyond_what_was_asked(share: GpuShare, memory: int, compute: int) -> None:
    cut = cut_share(share, memory, compute)
    if cut is None:
        assert memory < MIB or compute < 1
        return
    assert cut.total_memory <= memory
    assert cut.total_compute <= compute
    assert (cut.count, cut.memory, cut.compute) <= (share.count, share.memory, share.compute) or cut.count < share.count


@pytest.mark.parametrize(
    "numbers", [(0, GIB, 100, 100), (1, 1, 100, 100), (1, GIB, 0, 0), (1, GIB, 300, 200), (1, GIB, 900, 1100)]
)
def test_what_is_no_share_is_refused_in_words(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"GPU share|compute|ceiling"):
        GpuShare(*numbers)
