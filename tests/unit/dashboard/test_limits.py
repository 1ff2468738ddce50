"""What pages tell of limits: who goes around them, and, for operators, who keeps them."""

import pytest

from apps.cluster.models import Gpu
from apps.workloads import notices
from tests.factories import World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db
EVIDENCE = {"uncounted_bytes": 10 * 2**30, "busy_permille": 400, "processes": ["python3 (77)"]}


def test_a_bypass_is_told_on_its_page_at_home_and_to_operators(
    world: World, browser: Person, make: Make, card: Gpu
) -> None:
    rogue = make("Miner", cards=[card.uuid])
    notices.tell(rogue, notices.BYPASS, EVIDENCE)
    page = browser(world.member).get(f"/experiments/{rogue.id}/").content.decode()
    assert "python3 (77) uses 10 GiB of GPU memory and 40 % of compute around the library" in page
    assert "Programs go around its limits" in browser(world.member).get("/").content.decode()
    for who in (world.operator, world.auditor):
        told = browser(who).get("/cluster/").content.decode()
        assert "Miner" in told
        assert "python3 (77)" in told
    assert "Miner" not in browser(world.outsider).get("/cluster/").content.decode()


def test_operators_see_what_keeps_the_limits_and_why(world: World, browser: Person, card: Gpu) -> None:
    card.attributes = {
        "limits": "cgroup-memory",
        "limits_reason": "limits_by_driver",
        "whole_reason": "whole_only_card",
    }
    card.save()
    page = browser(world.operator).get("/cluster/").content.decode()
    assert "What keeps the limits" in page
    assert "The driver itself keeps memory limits" in page
    assert "whoever has all of it meets the driver directly" in page
    assert "What keeps the limits" not in browser(world.member).get("/cluster/").content.decode()
