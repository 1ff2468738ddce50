"""One workload at a time: load the row, leave the database, ask the cluster, write down what was seen.

Safe to kill between any two steps: every cluster call is idempotent, every write is guarded by the controller's lease, and what
was not written is found again by looking. No network call is made inside a transaction.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.cluster.protocol import Cluster
from apps.cluster.specs import Observation, RunSpec, RunState
from apps.core import clock
from apps.core.errors import PortalError, Unavailable
from apps.core.reason_texts import CATALOGUE
from apps.core.share import GpuShare
from apps.quotas import ledger
from apps.quotas import services as quotas
from apps.workloads import kinds, notices
from apps.workloads.judge import Errand, Verdict, errand, judge
from apps.workloads.lease import Fence
from apps.workloads.models import ENDED, Desired, Phase, Workload
from apps.workloads.moves import move, note, ring, would_move
from apps.workloads.resized import Database, resized
from apps.workloads.states import Event

Visit = Callable[[UUID, str, int], Awaitable[bool]]  # by id, slug and run; whether it got there

SEEN_PRECISION = timedelta(seconds=5)  # a row's time of observation may be so much older; it is stale after 45


@dataclass(frozen=True, slots=True)
class Loaded:
    """A row as it was when the errand was given out."""

    row: Workload
    errand: Errand
    spec: RunSpec | None = None
    volumes: Sequence[str] = ()
    share: GpuShare | None = None  # wanted, where another one is in force

    @property
    def workload_id(self) -> UUID:
        return self.row.id

    @property
    def run(self) -> int:
        return self.row.run


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the reconciler tells the controller after one round."""

    settled: bool = False  # quota came free
    moved: bool = False  # something visible changed, so cards may have changed hands
    answers: tuple[str, int] | None = None  # (slug, run) that answers and awaits its visit through the gateway
    again: bool = False  # the next errand is known already


def load(workload_id: UUID, suspect: bool) -> Loaded | None:
    """None where there is nothing to do. A row whose spec cannot be built raises: the controller tries it later, others go on.

    `suspect`: it was seen to run though it has ended; then it is asked to end once more.
    """
    try:
        workload = Workload.objects.get(id=workload_id)
    except Workload.DoesNotExist:
        return None
    ended = workload.phase in ENDED
    todo = errand(workload, still_there=ended and (suspect or ledger.held().filter(workload_id=workload.id).exists()))
    if todo is Errand.NOTHING:
        return None
    kind = kinds.get(workload.kind)
    volumes = kind.volumes_to_remove(workload) if todo is Errand.REMOVE else ()
    spec = kind.build_spec(_with_all(workload)) if todo in (Errand.APPLY, Errand.END) else None
    share = workload.share if todo is Errand.RESIZE else None
    return Loaded(workload, todo, spec, volumes, share)


def _with_all(workload: Workload) -> Workload:
    """With what a spec says besides. Most looks build none, and the joins cost them more than all else."""
    return Workload.objects.select_related("owner", "tenant", "environment").get(id=workload.id)


async def ask(cluster: Cluster, loaded: Loaded) -> Observation:
    """Do the errand and return what is seen. Raises Unavailable where the cluster does not answer."""
    uid = str(loaded.workload_id)
    if loaded.errand is Errand.APPLY:
        assert loaded.spec is not None
        try:
            return await cluster.apply(loaded.spec)
        except Unavailable:
            raise
        except PortalError as error:
            return await _refused(cluster, loaded, error)
    if loaded.errand is Errand.END:
        assert loaded.spec is not None
        return await cluster.delete(uid, grace_seconds=loaded.spec.grace_seconds)
    return await cluster.get(uid)


async def _refused(cluster: Cluster, loaded: Loaded, error: PortalError) -> Observation:
    """The cluster said no. It counts only once nothing is seen to run."""
    seen = await cluster.get(str(loaded.workload_id))
    if seen.run == loaded.run and seen.state is not RunState.ABSENT:
        return seen
    if seen.state not in (RunState.ABSENT, RunState.EXITED):
        return seen
    reason = error.code if error.code in CATALOGUE else "start_failed"
    evidence = {"problem": str(error.message), **error.evidence}
    return Observation(seen.uid, loaded.run, RunState.EXITED, seen.observed_at, reason, evidence)


def record(fence: Fence, loaded: Loaded, seen: Observation) -> Outcome:
    """Write what was seen, if this controller still holds the lease and the row is still at the same run.

    Of a pod that starts a cluster tells a dozen times, and half of that is nothing new: then nothing is written, and nobody waits for it.
    """
    known = _nothing_new(loaded.row, seen)
    return _record(fence, loaded, seen) if known is None else known


def _nothing_new(row: Workload, seen: Observation) -> Outcome | None:
    """None where something is to be written. The row as it was loaded will do: who has changed it since has rung again, or was the controller."""
    last_seen, verdict = row.observed_at, judge(row, seen)
    if verdict.settle or (verdict.event is not None and would_move(row, verdict.event, **_why(row, verdict))):
        return None
    facts = _new_facts(row, seen).keys()
    if facts - {"observed_at"} or (facts and (last_seen is None or seen.observed_at - last_seen >= SEEN_PRECISION)):
        return None
    return _outcome(row, verdict)


@transaction.atomic
def _record(fence: Fence, loaded: Loaded, seen: Observation) -> Outcome:
    fence.check()
    row = Workload.objects.select_for_update(no_key=True).filter(id=loaded.workload_id, run=loaded.run).first()
    if row is None:
        return Outcome()
    verdict = judge(row, seen)
    facts = _take_facts(row, seen)
    if verdict.settle:
        facts += _end_of_run(row)
    if verdict.event in (Event.ENDED, Event.BROKE):
        row.desired = Desired.STOPPED  # it ended by itself: a run is wanted once
        facts.append("desired")
    moved = False
    if verdict.event is not None:
        moved = move(row, verdict.event, **_why(row, verdict), by_controller=True, also=facts)
    if not moved:
        moved = _save_facts(row, facts)
    settled = verdict.settle and quotas.settle(workload_id=row.id, run=row.run)
    return replace(_outcome(row, verdict), settled=settled, moved=moved)


def _why(row: Workload, verdict: Verdict) -> dict[str, Any]:
    if verdict.reason:
        return {"reason": verdict.reason, "evidence": verdict.evidence}
    return {"reason": row.reason, "evidence": row.evidence}


def _outcome(row: Workload, verdict: Verdict) -> Outcome:
    deleted = row.phase in ENDED and row.desired == Desired.DELETED
    return Outcome(answers=(row.slug, row.run) if verdict.answers else None, again=deleted)


def _end_of_run(row: Workload) -> list[str]:
    """What was said of a run ends with it; a share that was on its way is that of the next run."""
    notices.end(row)
    if row.resize_from is None:
        return []
    row.resize_from = None
    return ["resize_from"]


def _take_facts(row: Workload, seen: Observation) -> list[str]:
    """Set on the row where it runs and when it was seen; the names of what changed."""
    changed = _new_facts(row, seen)
    for name, value in changed.items():
        setattr(row, name, value)
    return list(changed)


def _new_facts(row: Workload, seen: Observation) -> dict[str, Any]:
    """What of it the row does not say yet. An UNKNOWN observation is not a sight of it."""
    if seen.state is RunState.UNKNOWN:
        return {}
    facts: dict[str, Any] = {"observed_at": seen.observed_at}
    if seen.run == row.run and row.phase not in ENDED:
        facts["exit_code"] = seen.exit_code
        if seen.state not in (RunState.ABSENT, RunState.EXITED):  # what has ended keeps where it ran
            facts |= {"cards": list(seen.cards), "node": seen.node}
    return {name: value for name, value in facts.items() if getattr(row, name) != value}


def _save_facts(row: Workload, changed: list[str]) -> bool:
    """Returns whether anybody could see the change."""
    visible = any(name != "observed_at" for name in changed)
    if visible:
        row.version += 1
        ring(row, by_controller=True)
    if changed:
        row.save(update_fields=[*changed, "version"])
    return visible


@transaction.atomic
def record_silence(fence: Fence, loaded: Loaded, error: Unavailable) -> None:
    """The cluster did not answer. Only a start that waits for it says so; nothing else is concluded."""
    fence.check()
    row = Workload.objects.select_for_update(no_key=True).filter(id=loaded.workload_id, run=loaded.run).first()
    if row is not None and row.phase == Phase.ADMITTED and row.desired == Desired.RUNNING:
        known = error.code in CATALOGUE
        note(row, reason=error.code if known else "agent_unavailable", evidence=error.evidence)


@transaction.atomic
def record_reached(fence: Fence, workload_id: UUID, run: int) -> bool:
    """It answered through the gateway: ready, and from now on its time counts."""
    fence.check()
    row = Workload.objects.select_for_update(no_key=True).filter(id=workload_id, run=run).first()
    if row is None or row.desired != Desired.RUNNING or row.phase in (*ENDED, Phase.QUEUED, Phase.READY):
        return False
    if row.time_limit_seconds is not None and row.expires_at is None:
        row.start_clock(clock.now())
        row.save(update_fields=["expires_at", "next_due_at"])
    return move(row, Event.REACHED, reason="ready", by_controller=True)


@transaction.atomic
def record_unreached(fence: Fence, workload_id: UUID, run: int, problem: str) -> None:
    fence.check()
    row = Workload.objects.select_for_update(no_key=True).filter(id=workload_id, run=run, phase=Phase.STARTING).first()
    if row is not None and row.desired == Desired.RUNNING:
        note(row, reason="gateway_unavailable", evidence={"problem": problem})


@transaction.atomic
def record_removed(fence: Fence, loaded: Loaded) -> None:
    """Its volumes are removed or kept as was asked: the row is done."""
    fence.check()
    row = Workload.objects.select_for_update(no_key=True).filter(id=loaded.workload_id, deleted_at=None).first()
    if row is not None:
        row.deleted_at = clock.now()
        row.version += 1
        row.save(update_fields=["deleted_at", "version"])
        ring(row, by_controller=True)


async def reconcile(
    cluster: Cluster,
    database: Database,
    fence: Fence,
    workload_id: UUID,
    *,
    suspect: bool = False,
    visit: Visit | None = None,
) -> Outcome:
    """One round for one workload. Raises Unavailable after noting it; the caller comes back later.

    `visit` is made first where a run answers: as a rule it is over, and `record_reached` was called, before there was anything to say of it.
    """
    loaded = await database(load, workload_id, suspect)
    if loaded is None:
        return Outcome()
    if loaded.errand is Errand.REMOVE:
        for volume in loaded.volumes:
            await cluster.remove_volume(volume)
        await database(record_removed, fence, loaded)
        return Outcome(moved=True)
    freed, again = False, False
    if loaded.share is not None:
        freed, again = await resized(cluster, database, fence, loaded, loaded.share)
    try:
        seen = await ask(cluster, loaded)
    except Unavailable as error:
        await database(record_silence, fence, loaded, error)
        raise
    if (
        visit is not None
        and _may_be_visited(loaded.row, seen)
        and await visit(workload_id, loaded.row.slug, loaded.run)
    ):
        outcome = Outcome(moved=True)
    else:
        outcome = await database(record, fence, loaded, seen)
    return replace(
        outcome, settled=outcome.settled or freed, moved=outcome.moved or freed, again=outcome.again or again
    )


def _may_be_visited(row: Workload, seen: Observation) -> bool:
    """The gateway lets our visit through to what starts, by the row."""
    return row.phase == Phase.STARTING and judge(row, seen).answers
