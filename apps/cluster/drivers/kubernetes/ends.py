"""From the last that was seen of a pod to the reason that people read. Pure."""

import signal
from collections.abc import Mapping
from typing import Any

from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    condition,
    container,
    is_deleting,
    is_terminal,
    node_answers,
    node_of,
    status,
)
from apps.cluster.specs import RunSpec

Reason = tuple[str, dict[str, Any]]

LAST_LINES = 12  # shown where a run has crashed
_SHUTDOWN = (
    "NodeShutdown",
    "Terminated",
    "Shutdown",
)  # what kubelets of several releases say of a machine that goes down
_REFUSED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts")
_MISSING = ("executable file not found", "no such file or directory")
_SIGNALS = 128  # exit codes from here on are signals


def reason_of(pod: Manifest, spec: RunSpec | None, node: Manifest | None) -> Reason:
    """Why a pod that has ended has ended."""
    return _disrupted(pod, node) or _by_itself(pod, spec)


def reason_of_vanished(pod: Manifest, spec: RunSpec | None, node: Manifest | None, *, ours: bool) -> Reason:
    """Why a pod is no more. `ours`: we had asked for it. Empty: somebody asked for its end, and got it."""
    if ours:
        return "", {}
    disrupted = _disrupted(pod, node)
    if disrupted:
        return disrupted
    if node_of(pod) and node is None:
        return "node_gone", {"node": node_of(pod)}
    if is_terminal(pod):
        return _by_itself(pod, spec)
    return ("", {}) if is_deleting(pod) else ("lost", {})


def exit_code(pod: Manifest) -> int | None:
    """None where it was a signal, or nothing ever ran."""
    ended = _terminated(pod)
    code = ended.get("exitCode")
    if code is None or ended.get("signal") or code > _SIGNALS or _not_started(ended):
        return None
    return int(code)


def _disrupted(pod: Manifest, node: Manifest | None) -> Reason | None:
    """The cluster ended it, for reasons of its own."""
    why, message = str(status(pod).get("reason", "")), str(status(pod).get("message", ""))
    target = condition(pod, "DisruptionTarget")
    by = str(target.get("reason", "")) if target.get("status") == "True" else ""
    facts = {"node": node_of(pod), "problem": message or str(target.get("message", ""))}
    if why in _SHUTDOWN:
        return "host_shutdown", {}
    if why == "NodeLost" or by == "DeletionByPodGC":
        return "node_gone", {"node": node_of(pod)}
    if by == "DeletionByTaintManager":
        silent = node is None or not node_answers(node)
        return ("node_gone", {"node": node_of(pod)}) if silent else ("evicted", facts)
    if by == "DeletionByDeviceTaintManager":
        return "gpu_failed", facts
    if by == "PreemptionByScheduler" or why == "Preempting":
        return "preempted", facts
    if why == "Evicted" or by in ("EvictionByEvictionAPI", "TerminationByKubelet"):
        return "evicted", facts
    if why in _REFUSED or why.startswith("OutOf"):
        return "start_failed", {"problem": message or why}
    return None


def _by_itself(pod: Manifest, spec: RunSpec | None) -> Reason:
    ended = _terminated(pod)
    if not ended:
        message = str(status(pod).get("message") or status(pod).get("reason") or "")
        return ("start_failed", {"problem": message}) if message else ("lost", {})
    if trouble := _not_started(ended):
        return _could_not_start(trouble, spec)
    code = int(ended.get("exitCode") or 0)
    if code == 0:
        return "exited", {"exit_code": 0}
    evidence: dict[str, Any] = {"last_lines": str(ended.get("message", "")).splitlines()[-LAST_LINES:]}
    if ended.get("reason") == "OOMKilled":
        return "out_of_memory_host", {"ram_bytes": spec.resources.ram if spec else 0, **evidence}
    number = int(ended.get("signal") or 0) or (code - _SIGNALS if code > _SIGNALS else 0)
    if number:
        return "killed", {"signal": _signal_name(number), **evidence}
    return "crashed", {"exit_code": code, **evidence}


def _terminated(pod: Manifest) -> Mapping[str, Any]:
    state = container(pod).get("state") or {}
    found: Mapping[str, Any] = (
        state.get("terminated") or (container(pod).get("lastState") or {}).get("terminated") or {}
    )
    return found


def _not_started(ended: Mapping[str, Any]) -> str:
    """What the container runtime said instead of starting the program."""
    return (
        str(ended.get("message") or ended["reason"])
        if ended.get("reason") in ("StartError", "ContainerCannotRun")
        else ""
    )


def _could_not_start(problem: str, spec: RunSpec | None) -> Reason:
    if spec is not None and any(words in problem for words in _MISSING):
        return "environment_missing", {"environment": spec.environment, "command": spec.command[0], "problem": problem}
    return "start_failed", {"problem": problem}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
