"""Whether any machine could ever hold a request: asked of the database, however many cards there are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.cluster.models import Gpu, Site
from apps.core import clock
from apps.core.share import GIB, GpuShare, Resources
from apps.workloads.site import site_refusal

pytestmark = pytest.mark.django_db


def cards(*each: tuple[str, int, bool]) -> None:
    """Of (node, GiB, healthy)."""
    now = clock.now()
    Site.objects.create(driver="x", isolation="y", ram=64 * GIB, cpu_milli=4000, observed_at=now)
    for number, (node, size, healthy) in enumerate(each):
        memory = size * GIB
        Gpu.objects.create(
            uuid=f"g{number}", node=node, index=number, model="T4", memory=memory, physical_memory=memory,
            healthy=healthy,
        )  # fmt: skip


def asked(count: int, size: int) -> Resources:
    return Resources(GpuShare(count, size * GIB, 300, 300), 1000, GIB)


@pytest.mark.parametrize("count", [1, 2])
def test_what_some_machine_could_hold_is_not_refused_and_no_card_is_read(count: int) -> None:
    cards(("a", 80, True), ("a", 80, True), ("b", 16, True))
    with CaptureQueriesContext(
        connection,
    ) as asking:
        assert site_refusal(asked(count, 40)) is None
    assert not [query for query in asking if '"holders"' in query["sql"]]


def test_cards_of_several_machines_are_none_of_one() -> None:
    cards(("a", 80, True), ("b", 80, True))
    refused = site_refusal(asked(2, 40))
    assert refused is not None
    assert (refused.reason, refused.nearest and refused.nearest.gpu and refused.nearest.gpu.count) == (
        "never_fits_card",
        1,
    )


def test_a_card_that_is_not_well_holds_nothing() -> None:
    cards(("a", 80, False), ("a", 16, True))
    refused = site_refusal(asked(1, 40))
    assert refused is not None
    assert refused.reason == "never_fits_card"
