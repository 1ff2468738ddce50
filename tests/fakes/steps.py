"""Runs the reconciler without an event loop, one step after the other, so that a test can end it between any two."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from apps.cluster.specs import RunState
from apps.core.errors import Unavailable
from apps.workloads import lease, queue, reconcile, resync
from apps.workloads.models import Workload
from tests.fakes.cluster import FakeCluster

Result = TypeVar("Result")
NEXT = {RunState.PREPARING: RunState.STARTING, RunState.STARTING: RunState.READY, RunState.STOPPING: RunState.EXITED}


class Killed(BaseException):
    """The process is gone: nothing after this point happened."""


def finish(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value  # type: ignore[no-any-return]
    raise AssertionError("it waited for something")


@dataclass
class Steps:
    """A controller's rounds. `kill_at` ends it before its n-th call of the cluster or transaction: after the effect of the one before."""

    cluster: FakeCluster
    kill_at: int | None = None
    count: int = 0
    fence: lease.Fence = field(default_factory=lambda: take_over())

    def __post_init__(self) -> None:
        self.cluster.auto = False
        self.cluster.before = lambda method, uid: self.step()

    def step(self) -> None:
        self.count += 1
        if self.kill_at is not None and self.count >= self.kill_at:
            raise Killed

    async def database(self, function: Callable[..., Result], *arguments: Any) -> Result:
        self.step()
        return function(*arguments)

    def reconcile(self, workload_id: UUID) -> None:
        try:
            done = finish(reconcile.reconcile(self.cluster, self.database, self.fence, workload_id))
        except Unavailable:
            return
        if done.answers is not None:
            finish(self.database(reconcile.record_reached, self.fence, workload_id, done.answers[1]))

    def admit(self) -> None:
        finish(self.database(queue.admit_all))

    def advance(self, uid: str) -> None:
        """Time passes in the cluster: the run takes its next step."""
        run = self.cluster.runs.get(uid)
        if run is not None and run.seen.state in NEXT:
            self.cluster.go(uid, NEXT[run.seen.state], exit_code=0)

    def settle_down(self) -> None:
        """Round after round until everything is where it wants to be."""
        before: object = None
        while before != (before := self._state()):
            self.admit()
            for workload_id in resync.unsettled():
                self.reconcile(workload_id)
            for uid in list(self.cluster.runs):
                self.advance(uid)

    def _state(self) -> object:
        states = [(uid, run.spec.run, run.seen.state) for uid, run in self.cluster.runs.items()]
        return states, list(Workload.objects.order_by("id").values_list("id", "version", "deleted_at"))


def take_over() -> lease.Fence:
    holder = lease.new_holder(Path("/steps"))
    assert lease.take(holder) is None
    return lease.Fence(holder)
