"""What is seen of a run, from the objects of its pod: every state, every end, and nothing from what is not known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.cluster.drivers.kubernetes import ends, names
from apps.cluster.drivers.kubernetes.observing import Around, changes_at, observe
from apps.cluster.specs import Observation, RunState
from apps.core.reason_texts import CATALOGUE
from apps.core.share import GIB
from tests.unit.kubernetes.made import ended, node, pod, running, spec, waiting

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AROUND = Around(spec=spec(), node=node(), cards=("GPU-0",))


def seen(thing: dict[str, Any], **around: Any) -> Observation:
    made = observe(thing, replace(AROUND, **around), NOW)
    assert made.reason in CATALOGUE or not made.reason
    assert (made.uid, made.run, made.observed_at) == (spec().uid, 1, NOW)
    return made


def event(reason: str, at: str = "2026-01-01T11:00:00Z", message: str = "why") -> dict[str, Any]:
    return {"metadata": {"name": reason}, "reason": reason, "message": message, "lastTimestamp": at}


UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]
}


@pytest.mark.parametrize(
    ("status", "node_name", "state", "reason"),
    [
        ({}, "", RunState.PREPARING, "placing_pod"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}, "", RunState.PREPARING, "placing_pod"),
        (UNSCHEDULABLE, "", RunState.WAITING, "waiting_scheduler"),
        ({}, "n1", RunState.PREPARING, "preparing_claim"),
        (waiting("ContainerCreating"), "n1", RunState.PREPARING, "preparing_claim"),
        (waiting("ErrImagePull", "not found"), "n1", RunState.PREPARING, "image_unavailable"),
        (waiting("ImagePullBackOff", "not found"), "n1", RunState.PREPARING, "image_unavailable"),
        (waiting("InvalidImageName"), "n1", RunState.PREPARING, "image_unavailable"),
        (waiting("CreateContainerConfigError", "secret"), "n1", RunState.PREPARING, "container_refused"),
        (running(), "n1", RunState.STARTING, "starting_server"),
        (running(phase="Pending"), "n1", RunState.PREPARING, "preparing_claim"),
        (ended(0), "n1", RunState.EXITED, "exited"),
        (ended(3), "n1", RunState.EXITED, "crashed"),
        (ended(0) | {"phase": "Running"}, "n1", RunState.STOPPING, "stopping"),
    ],
)  # fmt: skip
def test_each_step_of_a_pod_is_a_state(status: dict[str, Any], node_name: str, state: RunState, reason: str) -> None:
    made = seen(pod(status=status, node=node_name))
    assert (made.state, made.reason) == (state, reason)
    assert made.cards == (("GPU-0",) if node_name and state is not RunState.EXITED else ())
    assert made.node == node_name


@pytest.mark.parametrize(("ago", "state"), [(1, RunState.PREPARING), (5, RunState.WAITING)])
def test_a_volume_that_is_just_being_made_is_not_worth_a_word(ago: int, state: RunState) -> None:
    (refused,) = UNSCHEDULABLE["conditions"]
    at = (NOW - timedelta(seconds=ago)).isoformat()
    thing = pod(status={"conditions": [{**refused, "lastTransitionTime": at}]})
    made = seen(thing, explain=lambda _spec, message: ("volume_not_bound", {"problem": message}))
    assert made.state is state
    due = changes_at(thing, timedelta(seconds=30))
    assert due is not None
    assert (due > NOW) == (state is RunState.PREPARING)


def test_it_is_ready_when_it_has_answered_now_or_to_an_earlier_driver() -> None:
    assert seen(pod(status=running(), node="n1"), answered=True).state is RunState.READY
    assert seen(pod(status=running(), node="n1", meta={"annotations": {names.READY: "2026"}})).state is RunState.READY
    slow = seen(pod(status=running(), node="n1"), slow=20)
    assert (slow.state, slow.reason, slow.evidence) == (RunState.STARTING, "server_slow", {"waited_seconds": 20})
    assert seen(pod(status=running(), node="n1"), spec=spec(probe=None)).state is RunState.READY


@pytest.mark.parametrize("place", [None, node(ready="Unknown"), node(ready="False")])
@pytest.mark.parametrize("status", [{}, running(), waiting("ContainerCreating")])
def test_on_a_node_that_does_not_answer_it_is_unknown(place: dict[str, Any] | None, status: dict[str, Any]) -> None:
    made = seen(pod(status=status, node="n1"), node=place)
    assert (made.state, made.reason, made.evidence["node"]) == (RunState.UNKNOWN, "node_silent", "n1")


def test_what_ended_before_its_node_was_lost_has_ended() -> None:
    assert seen(pod(status=ended(0), node="n1"), node=None).state is RunState.EXITED


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("FailedPrepareDynamicResources", "claim_not_prepared"),
        ("FailedResourceClaimCreation", "claim_not_made"),
        ("FailedMount", "volume_not_mounted"),
        ("FailedAttachVolume", "volume_not_mounted"),
        ("FailedCreatePodSandBox", "sandbox_failed"),
    ],
)
def test_events_tell_what_holds_up_a_pod_that_has_its_place(reason: str, code: str) -> None:
    held = pod(status=waiting("ContainerCreating"), node="n1")
    made = seen(held, events=[event("Pulled"), event(reason, message="DRA driver is not registered")])
    assert (made.state, made.reason) == (RunState.PREPARING, code)
    assert made.evidence == {"node": "n1", "problem": "DRA driver is not registered"}
    assert seen(pod(status=running(), node="n1"), events=[event(reason)]).state is RunState.STARTING


def test_the_newest_trouble_counts() -> None:
    held = pod(status=waiting("ContainerCreating"), node="n1")
    both = [
        event("FailedMount", "2026-01-01T11:00:00Z"),
        event("FailedPrepareDynamicResources", "2026-01-01T10:00:00Z"),
    ]
    assert seen(held, events=both).reason == "volume_not_mounted"
    series = {**event("FailedPrepareDynamicResources", ""), "series": {"lastObservedTime": "2026-01-01T11:30:00Z"}}
    assert seen(held, events=[both[0], series]).reason == "claim_not_prepared"


# --- Being ended ---------------------------------------------------------------------------------------------------------
def deleting(
    seconds_ago: int, *, finalizers: tuple[str, ...] = (), status: dict[str, Any] | None = None
) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    meta: dict[str, Any] = {"deletionTimestamp": at, **({"finalizers": list(finalizers)} if finalizers else {})}
    return pod(status=status or running(), node="n1", meta=meta)


def test_while_it_is_being_ended_it_is_stopping_whatever_its_containers_do() -> None:
    for status in (running(), ended(0), ended(137), {}):
        made = seen(deleting(0, status=status))
        assert (made.state, made.reason, made.evidence) == (RunState.STOPPING, "stopping", {})


def test_what_does_not_go_is_said_and_never_taken_for_gone() -> None:
    stuck = seen(deleting(60, finalizers=("example.com/hold",), status=ended(0)))
    assert (stuck.state, stuck.reason) == (RunState.STOPPING, "finalizer_stuck")
    assert stuck.evidence["finalizers"] == ["example.com/hold"]
    assert seen(deleting(60), node=None).reason == "node_silent"
    assert seen(deleting(60)).reason == "stop_slow"
    assert seen(deleting(29, finalizers=("example.com/hold",))).reason == "stopping"


# --- Ends ----------------------------------------------------------------------------------------------------------------
DISRUPTED = "DisruptionTarget"


def disrupted(by: str) -> dict[str, Any]:
    return {"conditions": [{"type": DISRUPTED, "status": "True", "reason": by, "message": "said why"}]}


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (ended(0), "exited", 0),
        (ended(3, message="a\nb"), "crashed", 3),
        (ended(137), "killed", None),
        (ended(137, reason="OOMKilled"), "out_of_memory_host", None),
        (ended(143), "killed", None),
        (ended(128, reason="StartError", message="exec: executable file not found in $PATH"), "environment_missing", None),
        (ended(128, reason="StartError", message="permission denied"), "start_failed", None),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, "evicted", None),
        ({"phase": "Failed", "reason": "NodeShutdown"}, "host_shutdown", None),
        ({"phase": "Failed", "reason": "Terminated"}, "host_shutdown", None),
        ({"phase": "Failed", "reason": "NodeLost"}, "node_gone", None),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"}, "start_failed", None),
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"}, "start_failed", None),
        ({"phase": "Failed"}, "lost", None),
        ({**ended(137), **disrupted("EvictionByEvictionAPI")}, "evicted", None),
        ({**ended(137), **disrupted("PreemptionByScheduler")}, "preempted", None),
        ({**ended(137), **disrupted("DeletionByPodGC")}, "node_gone", None),
        ({**ended(137), **disrupted("DeletionByDeviceTaintManager")}, "gpu_failed", None),
        ({**ended(137), **disrupted("DeletionByTaintManager")}, "evicted", None),
    ],
)  # fmt: skip
def test_each_end_has_its_reason(status: dict[str, Any], reason: str, code: int | None) -> None:
    made = seen(pod(status=status, node="n1"))
    assert (made.state, made.reason, made.exit_code) == (RunState.EXITED, reason, code)


def test_evidence_of_an_end_is_what_people_need() -> None:
    assert seen(pod(status=ended(3, message="\n".join(map(str, range(20)))), node="n1")).evidence == {
        "exit_code": 3,
        "last_lines": [str(n) for n in range(8, 20)],
    }
    assert seen(pod(status=ended(137), node="n1")).evidence["signal"] == "SIGKILL"
    assert seen(pod(status=ended(137, reason="OOMKilled"), node="n1")).evidence["ram_bytes"] == 4 * GIB
    missing = ended(128, reason="StartError", message='exec: "x": executable file not found in $PATH')
    assert seen(pod(status=missing, node="n1")).evidence["environment"] == "notebook"


@pytest.mark.parametrize(
    ("thing", "place", "ours", "reason"),
    [
        (pod(status=running(), node="n1"), node(), True, ""),
        (pod(status=running(), node="n1"), node(), False, "lost"),
        (pod(status=running(), node="n1"), None, False, "node_gone"),
        (deleting(5), node(), False, ""),
        (pod(status={**running(), **disrupted("EvictionByEvictionAPI")}, node="n1"), node(), False, "evicted"),
        (
            pod(status={**running(), **disrupted("DeletionByTaintManager")}, node="n1"),
            node(ready="Unknown"),
            False,
            "node_gone",
        ),
        (pod(status={**running(), **disrupted("EvictionByEvictionAPI")}, node="n1"), node(), True, ""),
        (pod(status=ended(3), node="n1"), node(), False, "crashed"),
        (pod(), node(), False, "lost"),
    ],
)
def test_what_is_no_more_ended_for_the_reason_last_seen(
    thing: dict[str, Any], place: dict[str, Any] | None, ours: bool, reason: str
) -> None:
    found, _ = ends.reason_of_vanished(thing, spec(), place, ours=ours)
    assert found == reason
