"""What only operators see of a cluster: how its cards are cut, and where it differs from the ledger."""

from typing import Any

import pytest

from apps.cluster import services as cluster
from apps.cluster.models import Gpu, Site
from apps.cluster.specs import Inventory, Slicing
from apps.core import clock
from tests.factories import World
from tests.unit.dashboard.conftest import Person

pytestmark = pytest.mark.django_db

PLUGIN = Slicing(
    "device-plugin",
    "slices_device_plugin",
    {"resources": ["nvidia.com/gpu.shared"]},
    ("plugin_fixed_sizes", "plugin_replicas_unlimited"),
)


def _mirror(slicing: Slicing | None) -> bool:
    notes = (slicing.reason, *slicing.cannot) if slicing else ()
    fields: dict[str, Any] = {"cards": (), "cpu_milli": 1000, "ram": 1, "isolation": "pods_per_run"}
    return cluster.mirror_inventory(
        Inventory("kubernetes", observed_at=clock.now(), notes=notes, slicing=slicing, **fields)
    )


def test_the_operator_reads_which_way_why_and_what_it_cannot_do(world: World, browser: Person) -> None:
    _mirror(PLUGIN)
    page = browser(world.operator).get("/cluster/").content.decode()
    assert "How GPUs are cut" in page
    assert "device plugin" in page
    assert "GPUs come from a device plugin" in page
    assert "nvidia.com/gpu.shared" in page
    assert "Fixed sizes only" in page
    assert page.count("A device plugin gives out whole GPUs") == 1, "said once, in its own place"


@pytest.mark.parametrize("person", ["manager", "member", "outsider"])
def test_others_read_only_what_it_keeps_them_from(world: World, browser: Person, person: str) -> None:
    _mirror(PLUGIN)
    page = browser(getattr(world, person)).get("/cluster/").content.decode()
    assert "How GPUs are cut" not in page
    assert "nvidia.com/gpu.shared" not in page
    assert "A device plugin gives out whole GPUs" in page


def test_where_there_is_one_way_only_nothing_is_said(world: World, browser: Person, card: Gpu) -> None:
    assert "How GPUs are cut" not in browser(world.operator).get("/cluster/").content.decode()


def test_with_claims_nothing_is_missing(world: World, browser: Person) -> None:
    _mirror(Slicing("dra", "slices_dra"))
    page = browser(world.operator).get("/cluster/").content.decode()
    assert "Dynamic Resource Allocation" in page
    assert "Nothing is missing" in page


@pytest.mark.usefixtures("world")
def test_the_mirror_keeps_it_and_knows_when_it_changes() -> None:
    assert _mirror(PLUGIN)
    assert not _mirror(PLUGIN), "the same again is no change"
    assert Site.objects.get().slicing["cannot"] == list(PLUGIN.cannot)
    assert _mirror(Slicing("dra", "slices_dra"))
    assert _mirror(None)
    assert Site.objects.get().slicing == {}
