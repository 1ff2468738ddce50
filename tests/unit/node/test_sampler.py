"""Samples of the agent are the portal's samples."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

from apps.cluster.specs import Sample as PortalSample
from vcuda.node.sampler import Sample

AT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def test_both_sides_of_the_socket_have_the_same_fields() -> None:
    assert [field.name for field in fields(Sample)] == [field.name for field in fields(PortalSample)]


def test_a_sample_is_read_back_as_it_was() -> None:
    sent = Sample(subject="card:GPU-1", at=AT, memory_used=7).as_json()
    read = PortalSample(**{**sent, "at": datetime.fromisoformat(sent["at"])})
    assert read == PortalSample(subject="card:GPU-1", at=AT, memory_used=7)
