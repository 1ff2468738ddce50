"""What an observation means for a row. Pure: no database, no cluster, no clock.

Rows say what is wanted, the cluster says what is. The judge never decides from a guess: UNKNOWN means nothing at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from apps.cluster.specs import Observation, RunState
from apps.core.reason_texts import CATALOGUE
from apps.core.reasons import Severity
from apps.workloads.models import ENDED, Desired, Phase, Workload
from apps.workloads.states import Event


class Errand(StrEnum):
    """What the controller has to do for a row, by desire and phase alone."""

    NOTHING = "nothing"
    APPLY = "apply"  # make it be
    RESIZE = "resize"  # it runs, and another share is wanted than the one in force
    LOOK = "look"  # it should be there: see how it is
    END = "end"  # ask it to end, again and again until it is gone
    REMOVE = "remove"  # ended and deleted: remove its volumes, then mark the row


def errand(workload: Workload, *, still_there: bool = False) -> Errand:
    """`still_there`: it has ended, and yet it holds a claim or was seen to run."""
    if workload.deleted_at is not None or workload.phase in (Phase.DRAFT, Phase.QUEUED):
        return Errand.NOTHING
    if workload.phase in ENDED:
        if still_there:
            return Errand.END
        return Errand.REMOVE if workload.desired == Desired.DELETED else Errand.NOTHING
    if workload.desired != Desired.RUNNING:
        return Errand.END
    if workload.phase == Phase.ADMITTED:
        return Errand.APPLY
    return Errand.RESIZE if workload.resize_from is not None else Errand.LOOK


@dataclass(frozen=True, slots=True)
class Verdict:
    """`event` None: the phase stays. `settle`: observed gone, so the claim goes back. `answers`: try the way through the gateway."""

    event: Event | None = None
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    settle: bool = False
    answers: bool = False


_STEPS = {
    RunState.WAITING: (Event.SEEN_WAITING, "waiting_card"),
    RunState.PREPARING: (Event.SEEN_PREPARING, "preparing_claim"),
    RunState.STARTING: (Event.SEEN_STARTING, "starting_server"),
}


def judge(workload: Workload, seen: Observation) -> Verdict:
    if seen.state is RunState.UNKNOWN:
        return Verdict()
    if workload.phase in (Phase.DRAFT, Phase.QUEUED):
        return Verdict()
    gone = seen.state in (RunState.ABSENT, RunState.EXITED)
    if workload.phase in ENDED:
        return Verdict(settle=gone)
    if workload.desired != Desired.RUNNING:
        return Verdict(event=Event.GONE, settle=True) if gone else Verdict()
    if workload.phase == Phase.ADMITTED and (seen.state is RunState.ABSENT or seen.run < workload.run):
        return Verdict()  # not made yet
    if gone:
        return _ended(seen if seen.run == workload.run or seen.state is RunState.ABSENT else None)
    if seen.run != workload.run:
        return Verdict()  # another run is alive under our name: nothing is concluded while it is
    return _present(workload, seen)


def _ended(seen: Observation | None) -> Verdict:
    """Gone without our asking: in order where the reason says so, broken otherwise."""
    reason = seen.reason if seen else ""
    evidence = dict(seen.evidence) if seen else {}
    if seen is not None and seen.exit_code is not None:
        evidence.setdefault("exit_code", seen.exit_code)
    if not reason:
        code = seen.exit_code if seen else None
        reason = "lost" if code is None else "exited" if code == 0 else "crashed"
    known = CATALOGUE.get(reason)
    broke = known is None or known.severity is Severity.ERROR
    return Verdict(event=Event.BROKE if broke else Event.ENDED, reason=reason, evidence=evidence, settle=True)


def _present(workload: Workload, seen: Observation) -> Verdict:
    if seen.state is RunState.STOPPING:
        return Verdict()  # the driver ends it by itself; how it ended is told by what is seen next
    if seen.state is RunState.READY:
        if workload.phase == Phase.READY:
            return Verdict()
        if workload.reason == "gateway_unavailable":
            return Verdict(answers=True)  # it stays said until a visit works
        return Verdict(event=Event.SEEN_STARTING, reason="checking_gateway", answers=True)
    if workload.phase == Phase.READY:
        return Verdict()  # the driver looks again after a restart; what was ready stays so until it ends
    event, reason = _STEPS[seen.state]
    return Verdict(event=event, reason=seen.reason or reason, evidence=dict(seen.evidence))
