"""Small questions to objects of the API server, which are dicts as they came: any part may be missing."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.cluster.drivers.kubernetes import names

Manifest = dict[str, Any]
Key = tuple[str, str]  # namespace ("" where there is none), name

ENDED_PHASES = ("Succeeded", "Failed")


def meta(thing: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = thing.get("metadata") or {}
    return found


def status(thing: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = thing.get("status") or {}
    return found


def spec(thing: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = thing.get("spec") or {}
    return found


def labels(thing: Mapping[str, Any]) -> dict[str, str]:
    return meta(thing).get("labels") or {}


def annotations(thing: Mapping[str, Any]) -> dict[str, str]:
    return meta(thing).get("annotations") or {}


def name_of(thing: Mapping[str, Any]) -> str:
    return str(meta(thing).get("name", ""))


def namespace_of(thing: Mapping[str, Any]) -> str:
    return str(meta(thing).get("namespace") or "")


def id_of(thing: Mapping[str, Any]) -> str:
    return str(meta(thing).get("uid", ""))


def key_of(thing: Mapping[str, Any]) -> Key:
    return namespace_of(thing), name_of(thing)


def version_of(thing: Mapping[str, Any]) -> str:
    return str(meta(thing).get("resourceVersion", ""))


def time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def made_at(thing: Mapping[str, Any]) -> datetime | None:
    return time(meta(thing).get("creationTimestamp"))


def is_deleting(thing: Mapping[str, Any]) -> bool:
    return bool(meta(thing).get("deletionTimestamp"))


def condition(thing: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Empty where there is no such condition."""
    found: Sequence[dict[str, Any]] = status(thing).get("conditions") or ()
    return next((one for one in found if one.get("type") == kind), {})


# --- Pods ----------------------------------------------------------------------------------------------------------------
def is_terminal(pod: Mapping[str, Any]) -> bool:
    """All its containers have ended for good, and its claims are being given back."""
    return status(pod).get("phase") in ENDED_PHASES


def run_of(pod: Mapping[str, Any]) -> int:
    text = labels(pod).get(names.RUN, "")
    return int(text) if text.isdecimal() else 0


def workload_of(thing: Mapping[str, Any]) -> str:
    """The workload's uid as the portal knows it; empty where it is not ours."""
    return annotations(thing).get(names.UID) or labels(thing).get(names.WORKLOAD, "")


def node_of(pod: Mapping[str, Any]) -> str:
    return str(spec(pod).get("nodeName") or "")


def container(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The status of the one container of a run; empty before the kubelet has told of it."""
    found: Sequence[dict[str, Any]] = status(pod).get("containerStatuses") or ()
    return found[0] if found else {}


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """Names of its ResourceClaims: those that it names, and those that Kubernetes made for it from a template."""
    found = (*(spec(pod).get("resourceClaims") or ()), *(status(pod).get("resourceClaimStatuses") or ()))
    return [one["resourceClaimName"] for one in found if one.get("resourceClaimName")]


def volumes_of(pod: Mapping[str, Any]) -> list[str]:
    """Names of its PersistentVolumeClaims."""
    found = spec(pod).get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in found if v.get("persistentVolumeClaim")]


# --- Nodes ---------------------------------------------------------------------------------------------------------------
def node_health(node: Mapping[str, Any] | None) -> tuple[bool, str]:
    """Whether cards of this node can be given out, and the code that says why not."""
    if node is None:
        return False, "node_gone"
    if not node_answers(node):
        return False, "node_silent"
    return (False, "node_cordoned") if spec(node).get("unschedulable") else (True, "")


def node_answers(node: Mapping[str, Any]) -> bool:
    return condition(node, "Ready").get("status") == "True"
