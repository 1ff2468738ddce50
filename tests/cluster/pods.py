"""Pods for the tests of the harness, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.cluster.cluster import Cluster
from tests.cluster.images import reference

T = TypeVar("T")
ACCOUNT = 1000
BOUND = 180.0  # s; only says when a test gives up, on a machine that does ten other things
_MEANWHILE = 2.0  # s


def notebook(
    name: str, *, command: list[str] | None = None, env: Mapping[str, str] = {}, claim: str = ""
) -> dict[str, Any]:
    """A pod as strict as those of the portal; `claim` is mounted as its home."""
    container: dict[str, Any] = {
        "name": "main",
        "image": reference("notebook"),
        "imagePullPolicy": "Never",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if command:
        container["command"] = command
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": ACCOUNT,
            "runAsGroup": ACCOUNT,
            "fsGroup": ACCOUNT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if claim:
        container["volumeMounts"] = [{"name": "home", "mountPath": "/home/tessera"}]
        spec["volumes"] = [{"name": "home", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def volume_claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def create(cluster: Cluster, namespace: str, *things: dict[str, Any]) -> None:
    kinds = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
    for thing in things:
        cluster.api.post(f"/api/v1/namespaces/{namespace}/{kinds[thing['kind']]}", thing)


def status(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
    return found


def running(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """The pod's status once its container runs."""

    def look() -> dict[str, Any] | None:
        found = status(cluster, namespace, name)
        containers = found.get("containerStatuses") or [{}]
        return found if containers[0].get("state", {}).get("running") else None

    return eventually(look, lambda: status(cluster, namespace, name))


def eventually(
    look: Callable[[], T | None],
    explain: Callable[[], Any] = lambda: "",
    seconds: float = BOUND,
    *,
    meanwhile: Callable[[], object] = lambda: None,
) -> T:
    """What `look` finds. `meanwhile` is done every two seconds; `explain` says how things stand when it took too long."""
    began = last = time.monotonic()
    while not (found := look()):
        now = time.monotonic()
        if now - began > seconds:
            raise AssertionError(f"Not within {seconds:.0f} s: {explain()}")
        if now - last > _MEANWHILE:
            meanwhile()
            last = now
        time.sleep(0.1)
    return found
