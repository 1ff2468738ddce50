"""What a pod shows of its run. Pure: from objects to an Observation; whoever calls says whether the objects may be believed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.drivers.kubernetes import ends, names
from apps.cluster.drivers.kubernetes.ends import Reason
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    annotations,
    condition,
    container,
    is_deleting,
    is_terminal,
    meta,
    node_answers,
    node_of,
    run_of,
    status,
    time,
    workload_of,
)
from apps.cluster.specs import Observation, RunSpec, RunState

_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
)
_CONFIGURATION = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
UNBOUND = "volume_not_bound"
_BINDING = timedelta(seconds=4)  # that a volume takes at most as a rule
TROUBLES = {  # reasons of events that tell why a pod which has its place does not start -> codes
    "FailedPrepareDynamicResources": "claim_not_prepared",
    "FailedResourceClaimCreation": "claim_not_made",
    "FailedMount": "volume_not_mounted",
    "FailedAttachVolume": "volume_not_mounted",
    "FailedMapVolume": "volume_not_mounted",
    "FailedCreatePodSandBox": "sandbox_failed",
}


@dataclass(frozen=True, slots=True)
class Around:
    """What else is known of a pod."""

    spec: RunSpec | None
    node: Manifest | None  # where it lies; None where there is no such node
    cards: tuple[str, ...] = ()
    events: Sequence[Manifest] = ()
    answered: bool = False  # the probe was
    slow: int = 0  # seconds that it has been waiting, once that is unusual
    stuck: timedelta = timedelta(seconds=30)
    explain: Callable[[RunSpec, str], Reason] = field(
        default=lambda _spec, message: ("waiting_scheduler", {"problem": message})
    )


def observe(pod: Manifest, around: Around, now: datetime) -> Observation:
    state, (reason, evidence) = _state(pod, around, now)
    ended = state is RunState.EXITED
    has_place = bool(node_of(pod))  # before that, the cards of its claim are a plan of the scheduler's
    return Observation(
        uid=workload_of(pod),
        run=run_of(pod),
        state=state,
        observed_at=now,
        reason=reason,
        evidence=evidence,
        cards=around.cards if has_place and not ended else (),
        node=node_of(pod),
        exit_code=ends.exit_code(pod) if ended else None,
    )


def _state(pod: Manifest, around: Around, now: datetime) -> tuple[RunState, Reason]:
    if is_deleting(pod):
        return RunState.STOPPING, _stopping(pod, around, now)
    if is_terminal(pod):
        return RunState.EXITED, ends.reason_of(pod, around.spec, around.node)
    if not node_of(pod):
        return _without_place(pod, around, now)
    if around.node is None or not node_answers(around.node):
        return RunState.UNKNOWN, ("node_silent", {"node": node_of(pod), "since": _silent_since(around.node)})
    running = (container(pod).get("state") or {}).get("running")
    if status(pod).get("phase") == "Running" and running is not None:
        return _running(pod, around)
    if (container(pod).get("state") or {}).get("terminated") is not None:
        return RunState.STOPPING, ("stopping", {})  # the kubelet will say in a moment how it ended
    return RunState.PREPARING, _preparing(pod, around)


def _without_place(pod: Manifest, around: Around, now: datetime) -> tuple[RunState, Reason]:
    refused = _refused(pod)
    if refused and around.spec is not None:
        reason, evidence = around.explain(around.spec, str(refused.get("message", "")))
        due = _unbound_at(pod)
        if reason != UNBOUND or due is None or now >= due:
            return RunState.WAITING, (reason, evidence)
    trouble = _trouble(pod, around.events)
    return RunState.PREPARING, trouble or ("placing_pod", {})


def _refused(pod: Manifest) -> Mapping[str, Any]:
    """What the scheduler said, where it has found no place; else empty."""
    placed = condition(pod, "PodScheduled")
    return placed if placed.get("status") == "False" and placed.get("reason") == "Unschedulable" else {}


def _unbound_at(pod: Manifest) -> datetime | None:
    """When a volume that has not come is worth a word: at first there never is one, it is made for the pod."""
    since = time(_refused(pod).get("lastTransitionTime"))
    return since + _BINDING if since else None


def _running(pod: Manifest, around: Around) -> tuple[RunState, Reason]:
    asks = around.spec is not None and around.spec.probe is not None
    if not asks or around.answered or names.READY in annotations(pod):
        return RunState.READY, ("ready", {})
    if around.slow:
        return RunState.STARTING, ("server_slow", {"waited_seconds": around.slow})
    return RunState.STARTING, ("starting_server", {})


def _preparing(pod: Manifest, around: Around) -> Reason:
    waiting = (container(pod).get("state") or {}).get("waiting") or {}
    why, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if why in _IMAGE:
        return "image_unavailable", {"image": str(container(pod).get("image", "")), "problem": message or why}
    if why in _CONFIGURATION:
        return "container_refused", {"problem": message or why}
    trouble = _trouble(pod, around.events)
    return trouble or ("preparing_claim", {})


def _trouble(pod: Manifest, events: Iterable[Manifest]) -> Reason | None:
    """The newest event that tells of one."""
    found = [event for event in events if event.get("reason") in TROUBLES]
    if not found:
        return None
    newest = max(found, key=_last_seen)
    return TROUBLES[newest["reason"]], {"node": node_of(pod), "problem": str(newest.get("message", ""))}


def _last_seen(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _stopping(pod: Manifest, around: Around, now: datetime) -> Reason:
    """Its grace has an end; what still stands in the way a while after that is said, and nothing is forced."""
    due = stuck_at(pod, around.stuck)
    if due is None or now < due:
        return "stopping", {}
    since = str(meta(pod).get("deletionTimestamp"))
    finalizers = list(meta(pod).get("finalizers") or ())
    if finalizers:
        return "finalizer_stuck", {"finalizers": finalizers, "since": since}
    if node_of(pod) and (around.node is None or not node_answers(around.node)):
        return "node_silent", {"node": node_of(pod), "since": _silent_since(around.node)}
    return "stop_slow", {"node": node_of(pod), "since": since}


def stuck_at(pod: Manifest, after: timedelta) -> datetime | None:
    """When a pod that is being deleted is overdue."""
    ends_at = time(meta(pod).get("deletionTimestamp"))
    return ends_at + after if ends_at else None


def changes_at(pod: Manifest, stuck: timedelta) -> datetime | None:
    """When the passing of time alone may change what is seen of it."""
    return stuck_at(pod, stuck) if is_deleting(pod) else _unbound_at(pod)


def _silent_since(node: Manifest | None) -> str:
    return str(condition(node or {}, "Ready").get("lastTransitionTime", ""))
