"""The ledger under parallel requests, on the database that the tests run on (TESSERA_DATABASE_URL for PostgreSQL)."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connections

from apps.audit.context import Actor
from apps.core.errors import QuotaExceeded
from apps.core.share import GIB
from apps.experiments.services import request_experiment
from apps.quotas import ledger
from apps.workloads import queue, services
from apps.workloads.models import Phase, Workload
from tests import child
from tests.factories import NO_GPU, SLICE, World, department, member, quota, tenant, user
from tests.factories import world as make_world

pytestmark = pytest.mark.django_db(transaction=True)
REQUESTS = 200
PLACES = 10


@pytest.fixture
def crowd(db: None, bell_dir: Path) -> World:
    """A tenant with room for exactly ten slices, and no limit of a person's own."""
    return make_world(gpu_memory=PLACES * 8 * GIB, gpu_compute=PLACES * 300)


def create(world: World, number: int) -> str:
    """One request from one thread; returns what came of it."""
    try:
        made = request_experiment(
            actor=(world.member, world.colleague)[number % 2], tenant=world.lab, name=f"{number}",
            environment=world.environment, resources=SLICE,
        )  # fmt: skip
    except QuotaExceeded:
        return "refused"
    finally:
        connections.close_all()
    return made.phase


def outcomes(world: World) -> list[str]:
    with ThreadPoolExecutor(32) as threads:
        return list(threads.map(lambda number: create(world, number), range(REQUESTS)))


def test_of_200_parallel_requests_for_ten_places_ten_are_admitted_and_the_rest_wait(crowd: World) -> None:
    found = outcomes(crowd)
    assert (found.count("admitted"), found.count("queued")) == (PLACES, REQUESTS - PLACES)
    assert ledger.held().count() == PLACES
    assert Workload.objects.filter(phase=Phase.QUEUED).count() == REQUESTS - PLACES


def test_of_200_parallel_requests_those_beyond_the_queue_are_refused_and_leave_nothing_behind(crowd: World) -> None:
    quota(crowd.lab, gpu_memory=PLACES * 8 * GIB, gpu_compute=PLACES * 300, pending=5)
    found = outcomes(crowd)
    assert (found.count("admitted"), found.count("queued"), found.count("refused")) == (
        PLACES,
        5,
        REQUESTS - PLACES - 5,
    )
    assert Workload.objects.count() == PLACES + 5


def test_two_tenants_below_one_department_never_take_more_than_it_has(crowd: World) -> None:
    top = department(gpu_memory=PLACES * 8 * GIB)
    labs = [tenant(parent=top, gpu_memory=PLACES * 8 * GIB) for _ in range(2)]
    people = [user() for _ in labs]
    for lab, who in zip(labs, people, strict=True):
        member(lab, who)

    def ask(number: int) -> str:
        lab, who = labs[number % 2], people[number % 2]
        try:
            return request_experiment(
                actor=Actor.person(who), tenant=lab, name=str(number), environment=crowd.environment, resources=SLICE
            ).phase
        finally:
            connections.close_all()

    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(ask, range(60)))
    assert found.count("admitted") == PLACES


def test_of_200_requests_from_four_processes_ten_are_admitted(crowd: World) -> None:
    arguments = (str(crowd.lab.id), str(crowd.member.user_id), str(crowd.environment.id), str(REQUESTS // 4))
    children = [child.start("ask", *arguments) for _ in range(4)]
    found = [phase for process in children for phase in json.loads(process.communicate(timeout=300)[0])]
    assert (found.count("admitted"), found.count("queued")) == (PLACES, REQUESTS - PLACES)
    assert ledger.held().count() == PLACES


def test_parallel_passes_over_the_queue_admit_each_place_once(crowd: World) -> None:
    outcomes(crowd)
    for workload in Workload.objects.filter(phase=Phase.ADMITTED)[:4]:
        services.stop(actor=crowd.manager, workload=workload)
        _gone(workload)

    def one_pass(_number: int) -> int:
        try:
            return len(queue.admit_all())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(one_pass, range(4))) == 4
    assert ledger.held().count() == PLACES


def _gone(workload: Workload) -> None:
    from apps.quotas.services import settle
    from apps.workloads.moves import move
    from apps.workloads.states import Event

    fresh = Workload.objects.get(id=workload.id)
    move(fresh, Event.GONE, reason=fresh.reason)
    settle(workload_id=workload.id, run=workload.run)


def test_the_same_key_pressed_many_times_at_once_is_one_request(crowd: World) -> None:
    def press(_number: int) -> UUID:
        try:
            return request_experiment(
                actor=crowd.member, tenant=crowd.lab, name="double click", environment=crowd.environment,
                resources=NO_GPU, key="form-1",
            ).id  # fmt: skip
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(press, range(16)))) == 1
    assert Workload.objects.count() == 1


def test_stop_and_admission_at_once_leave_no_claim_without_a_workload(crowd: World) -> None:
    outcomes(crowd)
    waiting = list(queue.queued())
    calls: list[Callable[[], object]] = [queue.admit_all] * 3
    calls += [lambda w=w: services.stop(actor=crowd.manager, workload=w) for w in waiting[:40]]  # type: ignore[misc]

    def call(function: Callable[[], object]) -> None:
        try:
            function()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(call, calls))
    holders = set(ledger.held().values_list("workload_id", flat=True))
    running = set(Workload.objects.filter(phase=Phase.ADMITTED).values_list("id", flat=True))
    assert holders == running
