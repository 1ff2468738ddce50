"""The controller may be killed between any two steps. Every place is tried."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction

from apps.cluster.specs import RunState
from apps.experiments import services as experiments
from apps.quotas import ledger
from apps.workloads import services
from apps.workloads.lease import LeaseLost
from apps.workloads.models import Desired, Phase, Workload
from tests.factories import SLICE, World, quota
from tests.fakes.cluster import ALIVE, FakeCluster
from tests.fakes.steps import Killed, Steps

pytestmark = pytest.mark.django_db


Act = Callable[[World], object]


def first() -> Workload:
    return Workload.objects.get(name="first")


def ask(world: World, name: str) -> Workload:
    return experiments.request_experiment(
        actor=world.member, tenant=world.lab, name=name, environment=world.environment, resources=SLICE
    )


# What a person does, one thing after the other. There is room for one at a time, so the second waits for the first.
LIFE: dict[str, Act] = {
    "ask": lambda world: ask(world, "first"),
    "ask for another": lambda world: ask(world, "second"),
    "stop": lambda world: services.stop(actor=world.member, workload=first()),
    "start": lambda world: services.start(actor=world.member, workload=first()),
    "stop the other": lambda world: services.stop(actor=world.member, workload=Workload.objects.get(name="second")),
    "delete": lambda world: experiments.delete_experiment(actor=world.member, workload=first(), remove_home=True),
}


def check_ledger(cluster: FakeCluster) -> None:
    """What lives in the cluster holds its claim, and no more is held than there is quota."""
    held = {str(workload_id) for workload_id in ledger.held().values_list("workload_id", flat=True)}
    alive = {uid for uid, run in cluster.runs.items() if run.seen.state in ALIVE}
    assert alive <= held
    assert len(held) <= 1, "the quota has room for one"


@dataclass
class Story:
    """A world and its cluster, as far as the acts before `act` have brought them."""

    world: World
    cluster: FakeCluster

    def play(self, act: Act, kill_at: int | None = None) -> tuple[object, int]:
        """One act to its end, killed on the way if asked; then everything as it was before. Returns what came out and the steps taken."""
        with transaction.atomic():
            cluster = copy.deepcopy(self.cluster)
            steps = Steps(cluster, kill_at)
            act(self.world)
            try:
                steps.settle_down()
                assert kill_at is None, "the kill never came"
            except Killed:
                check_ledger(cluster)
                Steps(cluster).settle_down()
            check_ledger(cluster)
            result = outcome(cluster)
            transaction.set_rollback(True)
        return result, steps.count

    def go_on(self, act: Act) -> None:
        act(self.world)
        Steps(self.cluster).settle_down()


@pytest.fixture
def narrow(world: World) -> World:
    quota(world.lab, running=1)
    return world


def outcome(cluster: FakeCluster) -> tuple[Any, Any, Any]:
    ordered = Workload.objects.order_by("name")
    rows = [(w.name, w.phase, w.desired, w.run, w.deleted_at is None) for w in ordered]
    states = {run.spec.name: (run.seen.state, run.spec.run) for run in cluster.runs.values()}
    return rows, states, len(cluster.removed_volumes) > 0


@pytest.fixture
def story(narrow: World) -> Story:
    return Story(narrow, FakeCluster())


def test_without_a_kill_each_gets_its_turn_and_what_was_deleted_is_gone(story: Story) -> None:
    for act in LIFE.values():
        story.go_on(act)
    rows, states, removed = outcome(story.cluster)
    assert rows == [
        ("first", Phase.STOPPED, Desired.DELETED, 2, False),
        ("second", Phase.STOPPED, Desired.STOPPED, 1, True),
    ]
    assert set(states.values()) == {(RunState.EXITED, 2), (RunState.EXITED, 1)}
    assert removed


@pytest.mark.parametrize("name", LIFE)
def test_a_kill_at_any_step_changes_nothing_in_the_end(story: Story, name: str) -> None:
    for earlier in list(LIFE)[: list(LIFE).index(name)]:
        story.go_on(LIFE[earlier])
    expected, steps = story.play(LIFE[name])
    assert steps > 3
    for kill_at in range(1, steps + 1):
        assert story.play(LIFE[name], kill_at)[0] == expected, f"killed at step {kill_at}"


def test_an_old_controller_that_wakes_up_writes_nothing(narrow: World) -> None:
    cluster = FakeCluster()
    old = Steps(cluster)
    LIFE["ask"](narrow)
    workload = Workload.objects.get()
    Steps(cluster)  # another one has taken over
    with pytest.raises(LeaseLost):
        old.reconcile(workload.id)
    workload.refresh_from_db()
    assert workload.phase == Phase.ADMITTED
