"""Any order of requests, stops, quota changes, ends, losses, silences and kills: the ledger's promises hold at every instant."""

from typing import Any

import pytest
from django.db import transaction
from django.db.models import Count, Q
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.cluster.specs import RunState
from apps.core.errors import Conflict, NeverFits, NotFound, QuotaExceeded
from apps.core.share import GIB, GpuShare, Resources
from apps.experiments import services as experiments
from apps.quotas import ledger
from apps.quotas.services import set_quota
from apps.workloads import services
from apps.workloads.models import ENDED, Phase, Workload
from tests.factories import world as make_world
from tests.fakes.cluster import ALIVE, FakeCluster
from tests.fakes.steps import Killed, Steps

REFUSALS = (NeverFits, QuotaExceeded, Conflict, NotFound)
DIMENSIONS = ("gpu_memory", "gpu_compute", "running")
sizes = st.sampled_from([(4, 100), (8, 300), (20, 600)])


class Life(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.world = make_world(gpu_memory=40 * GIB, gpu_compute=1000, running=4, running_per_user=2, pending=3)
        set_quota(actor=self.world.operator, tenant=self.world.department, limits={"gpu_memory": 48 * GIB})
        self.cluster = FakeCluster()
        self.steps = Steps(self.cluster)
        self.used: dict[tuple[Any, str], int] = {}

    def teardown(self) -> None:
        if hasattr(self, "atomic"):
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    def pick(self, number: int) -> Workload | None:
        rows = list(Workload.objects.filter(deleted_at=None).order_by("created_at", "id"))
        return rows[number % len(rows)] if rows else None

    @rule(who=st.sampled_from(["member", "colleague", "stranger"]), size=sizes)
    def ask(self, who: str, size: tuple[int, int]) -> None:
        lab = self.world.other_lab if who == "stranger" else self.world.lab
        share = GpuShare(1, size[0] * GIB, size[1], size[1])
        try:
            experiments.request_experiment(
                actor=getattr(self.world, who), tenant=lab, name="x", environment=self.world.environment,
                resources=Resources(share, 1000, GIB),
            )  # fmt: skip
        except REFUSALS:
            return

    @rule(number=st.integers(0, 20), what=st.sampled_from(["stop", "start", "delete"]))
    def change(self, number: int, what: str) -> None:
        workload = self.pick(number)
        if workload is not None:
            try:
                getattr(services, what)(actor=self.world.operator, workload=workload)
            except REFUSALS:
                return

    @rule(memory=st.sampled_from([0, 8, 24, 40, 64]))
    def change_quota(self, memory: int) -> None:
        set_quota(actor=self.world.operator, tenant=self.world.lab, limits={"gpu_memory": memory * GIB})

    @rule(number=st.integers(0, 20))
    def reconcile(self, number: int) -> None:
        workload = self.pick(number)
        if workload is not None:
            self.steps.reconcile(workload.id)

    @rule()
    def pass_over_the_queue(self) -> None:
        self.steps.admit()

    @rule(number=st.integers(0, 20), kill_at=st.integers(1, 6))
    def killed_while_reconciling(self, number: int, kill_at: int) -> None:
        workload = self.pick(number)
        try:
            if workload is not None:
                Steps(self.cluster, kill_at).reconcile(workload.id)
        except Killed:
            pass
        self.steps = Steps(self.cluster)

    @precondition(lambda self: self.cluster.runs)
    @rule(number=st.integers(0, 20))
    def time_passes(self, number: int) -> None:
        self.steps.advance(sorted(self.cluster.runs)[number % len(self.cluster.runs)])

    @precondition(lambda self: self.cluster.runs)
    @rule(number=st.integers(0, 20), how=st.sampled_from(["exit", "crash", "lose", "unknown"]))
    def something_happens(self, number: int, how: str) -> None:
        uid = sorted(self.cluster.runs)[number % len(self.cluster.runs)]
        if how == "lose":
            self.cluster.lose(uid)
        elif self.cluster.runs[uid].seen.state in ALIVE:
            state = RunState.UNKNOWN if how == "unknown" else RunState.EXITED
            self.cluster.go(uid, state, exit_code=int(how == "crash"))

    @rule(silent=st.booleans())
    def silence(self, silent: bool) -> None:
        self.cluster.silent = silent

    @invariant()
    def no_more_is_given_than_there_is(self) -> None:
        """Use may lie above a limit only where the limit was lowered below it; then it never rises."""
        nodes = [
            node for lab in (self.world.lab, self.world.other_lab)
            for node in ledger.nodes(ledger.path_of(lab.id), None, ledger.Waiting())
        ]  # fmt: skip
        before, self.used = self.used, {(n.id, name): getattr(n.used, name) for n in nodes for name in DIMENSIONS}
        for node in nodes:
            for name in DIMENSIONS:
                limit, used = getattr(node.limits, name), self.used[node.id, name]
                assert limit is None or used <= max(limit, before.get((node.id, name), 0))

    @invariant()
    def a_claim_is_held_exactly_while_something_may_be_there(self) -> None:
        held = set(ledger.held().values_list("workload_id", flat=True))
        live = set(Workload.objects.exclude(phase__in=(Phase.QUEUED, *ENDED)).values_list("id", flat=True))
        assert held == live
        alive = {uid for uid, run in self.cluster.runs.items() if run.seen.state in (*ALIVE, RunState.UNKNOWN)}
        assert alive <= {str(workload_id) for workload_id in held}, "settled though it was not seen gone"

    @invariant()
    def the_history_is_whole(self) -> None:
        """One open step for what is under way, none for what has ended."""
        for workload in Workload.objects.annotate(open_steps=Count("steps", filter=Q(steps__ended_at=None))):
            assert workload.open_steps == (0 if workload.has_ended else 1)


@pytest.mark.django_db
def test_the_ledger_keeps_its_promises_in_any_order_of_events(bell_dir: object) -> None:
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=12, stateful_step_count=30, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip
