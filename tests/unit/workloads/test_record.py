"""What is written of an observation, and what is not worth a write."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.cluster.specs import Observation, RunState
from apps.core import clock
from apps.experiments import services as experiments
from apps.workloads import lease
from apps.workloads.judge import Errand
from apps.workloads.models import Phase, Workload
from apps.workloads.reconcile import SEEN_PRECISION, Loaded, Outcome, record
from tests.conftest import Clock
from tests.factories import SLICE, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def fence(people: World, stopped_clock: Clock) -> lease.Fence:
    holder = lease.new_holder(Path("/test"))
    assert lease.take(holder) is None
    return lease.Fence(holder)


@pytest.fixture
def asked(people: World, stopped_clock: Clock) -> Workload:
    return experiments.request_experiment(
        actor=people.member, tenant=people.lab, name="One", environment=people.environment, resources=SLICE
    )


def told(fence: lease.Fence, row: Workload, state: RunState, node: str = "a") -> tuple[Outcome, list[str]]:
    """The outcome, and the statements that write."""
    seen = Observation(row.uid, row.run, state, clock.now(), node=node)
    loaded = Workload.objects.get(id=row.id)
    with CaptureQueriesContext(connection) as queries:
        outcome = record(fence, Loaded(loaded, Errand.LOOK), seen)
    return outcome, [q["sql"] for q in queries if not q["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE"))]


def test_the_same_again_writes_nothing_and_still_tells_who_answers(
    fence: lease.Fence, asked: Workload, stopped_clock: Clock
) -> None:
    first, written = told(fence, asked, RunState.READY)
    assert first.moved
    assert written
    stopped_clock.tick(seconds=SEEN_PRECISION.total_seconds() / 2)
    again, written = told(fence, asked, RunState.READY)
    assert written == []
    assert (again.moved, again.answers) == (False, first.answers)


def test_what_anybody_could_see_is_written_at_once(fence: lease.Fence, asked: Workload, stopped_clock: Clock) -> None:
    told(fence, asked, RunState.STARTING)
    outcome, written = told(fence, asked, RunState.STARTING, node="b")
    assert outcome.moved
    assert written
    assert Workload.objects.get(id=asked.id).node == "b"


def test_that_it_was_seen_is_written_before_it_counts_as_unseen(
    fence: lease.Fence, asked: Workload, stopped_clock: Clock
) -> None:
    told(fence, asked, RunState.STARTING)
    stopped_clock.tick(seconds=SEEN_PRECISION.total_seconds() + 1)
    _, written = told(fence, asked, RunState.STARTING)
    assert written
    assert Workload.objects.get(id=asked.id).observed_at == clock.now()


def test_its_end_is_never_taken_for_nothing_new(fence: lease.Fence, asked: Workload) -> None:
    told(fence, asked, RunState.STARTING)
    outcome, _ = told(fence, asked, RunState.EXITED)
    assert outcome.settled
    assert Workload.objects.get(id=asked.id).phase in (Phase.FAILED, Phase.STOPPED)


def test_a_run_that_is_not_the_rows_changes_nothing(fence: lease.Fence, asked: Workload) -> None:
    loaded = Loaded(Workload.objects.get(id=asked.id), Errand.LOOK)
    Workload.objects.filter(id=asked.id).update(run=7)
    before = Workload.objects.values().get(id=asked.id)
    assert record(fence, loaded, Observation(asked.uid, loaded.run, RunState.READY, clock.now())) == Outcome()
    assert Workload.objects.values().get(id=asked.id) == before
