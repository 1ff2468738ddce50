"""Who waits for quota, and in which order they go."""

from typing import Any

import pytest

from apps.core.share import GIB
from apps.workloads import queue, selectors, services
from apps.workloads.models import Desired, Phase, Workload
from tests.conftest import Clock
from tests.factories import NO_GPU, World, quota
from tests.unit.workloads.asking import ask, ended

pytestmark = pytest.mark.django_db


def test_who_came_first_goes_first_even_where_a_smaller_one_would_fit(world: World, stopped_clock: Clock) -> None:
    quota(world.lab, gpu_compute=500, running_per_user=None)
    running = ask(world)
    stopped_clock.tick(seconds=1)
    large = ask(world)
    stopped_clock.tick(seconds=1)
    small = ask(world, "colleague", resources=NO_GPU)
    assert (large.phase, small.phase) == (Phase.QUEUED, Phase.QUEUED)
    assert (large.reason, small.reason) == ("waiting_quota", "waiting_turn")
    assert [selectors.position(w) for w in (large, small)] == [1, 2]
    services.stop(actor=world.member, workload=running)
    ended(running)
    assert queue.admit_all() == [large.id, small.id]


def test_who_waits_for_the_own_limit_holds_nobody_else_up(world: World) -> None:
    quota(world.lab, running_per_user=1)
    ask(world)
    mine, theirs = ask(world), ask(world, "colleague")
    assert (mine.phase, mine.evidence["dimension"]) == (Phase.QUEUED, "running_per_user")
    assert theirs.phase == Phase.ADMITTED


def test_a_tenant_that_waits_for_itself_does_not_hold_up_its_neighbour(world: World) -> None:
    quota(world.lab, running=1)
    ask(world)
    ask(world)
    assert ask(world, "stranger", tenant=world.other_lab).phase == Phase.ADMITTED


def test_who_waits_for_the_department_goes_before_all_its_tenants(world: World, stopped_clock: Clock) -> None:
    quota(world.department, running=1)
    first = ask(world)
    stopped_clock.tick(seconds=1)
    second = ask(world, "stranger", tenant=world.other_lab)
    stopped_clock.tick(seconds=1)
    third = ask(world)
    services.stop(actor=world.member, workload=first)
    ended(first)
    assert queue.admit_all() == [second.id]
    assert Workload.objects.get(id=third.id).phase == Phase.QUEUED


def test_a_quota_that_became_too_small_refuses_who_waits_and_says_so(world: World) -> None:
    quota(world.lab, running=1)
    ask(world)
    waits = ask(world)
    quota(world.lab, gpu_memory=4 * GIB)
    assert queue.admit_all() == []
    refused = Workload.objects.get(id=waits.id)
    assert (refused.phase, refused.reason, refused.desired) == (Phase.FAILED, "never_fits_quota", Desired.STOPPED)


def test_a_pass_over_a_long_queue_asks_only_those_in_front(world: World, django_assert_max_num_queries: Any) -> None:
    quota(world.lab, running=1, running_per_user=None)
    ask(world)
    for _ in range(30):
        ask(world)
    with django_assert_max_num_queries(14):
        assert queue.admit_all() == []
