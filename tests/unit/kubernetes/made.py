"""Specs and objects for tests of the kubernetes driver's pure parts."""

from typing import Any

from apps.cluster.drivers.kubernetes import manifests, names
from apps.cluster.drivers.kubernetes.adapters.base import Slice, SliceAdapter
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.core.share import GIB, GpuShare, Resources

RULES = Rules(images={"notebook": "registry.example/notebook:1"})
THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=700)
WHOLE = GpuShare(count=2, memory=8 * GIB, compute=1000, ceiling=1000)
UID = "0199f6a4-5b5a-7c3e-8a52-0d6c1b2a3f4e"


def spec(**changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "uid": UID,
        "run": 1,
        "kind": "experiment",
        "name": "量子 training",
        "slug": "training-abc",
        "tenant": "0199f6a4-0000-7000-8000-000000000001",
        "owner": "0199f6a4-0000-7000-8000-000000000002",
        "account": "lab/ada",
        "environment": "notebook",
        "command": ("tessera-notebook",),
        "resources": Resources(gpu=THIRD, cpu_milli=2000, ram=4 * GIB),
        "env": {"TESSERA_WORKLOAD": UID, "SECRET": "swordfish"},
        "ports": (Port("http"),),
        "volumes": (Volume("home-1", "~"),),
        "probe": Probe("http", "/api/status"),
        "grace_seconds": 10,
        "labels": {"owner": "ada", "tenant": "lab", "environment": "notebook"},
    }
    return RunSpec(**values | changes)


def pod(
    made_of: RunSpec | None = None,
    *,
    status: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    adapter: SliceAdapter | None = None,
    node: str = "",
) -> dict[str, Any]:
    """As the API server has it: made by the driver, with an id, a status, perhaps a place."""
    made_of = made_of or spec()
    adapter = adapter or Dra()
    part = adapter.slice(made_of) if made_of.resources.gpu else Slice()
    thing = manifests.pod(made_of, RULES, "image", part, adapter.name)
    thing["metadata"] |= {"uid": f"id-of-{made_of.uid}-{made_of.run}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    thing["metadata"] |= meta or {}
    thing["status"] = {"phase": "Pending", **(status or {})}
    if node:
        thing["spec"]["nodeName"] = node
    return thing


def running(**more: Any) -> dict[str, Any]:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [{"name": "main", "state": state}], **more}


def ended(code: int, *, reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    state = {
        "terminated": {"exitCode": code, "reason": reason or ("Error" if code else "Completed"), "message": message}
    }
    phase = "Failed" if code else "Succeeded"
    return {"phase": phase, "containerStatuses": [{"name": "main", "state": state}], **more}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    status = {"name": "main", "image": "image", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"phase": "Pending", "containerStatuses": [status], **more}


def node(name: str = "n1", *, ready: str = "True", **spec_: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return {
        "metadata": {"name": name},
        "spec": spec_,
        "status": {"conditions": conditions, "allocatable": {"cpu": "8", "memory": "32Gi"}},
    }


def slice_(*devices: dict[str, Any], name: str = "n1", pool: str = "n1", generation: int = 1) -> dict[str, Any]:
    spec_ = {
        "driver": names.DRIVER,
        "nodeName": name,
        "pool": {"name": pool, "generation": generation},
        "devices": list(devices),
    }
    return {"metadata": {"name": f"{pool}-{generation}"}, "spec": spec_}


def device(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": f"GPU-{index}"},
            "model": {"string": "H100"},
            "index": {"int": index},
            "simulated": {"bool": True},
            "driverVersion": {"version": "580.1.2"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        },
        "capacity": {"memory": {"value": "79Gi"}, "compute": {"value": "1000"}},
        **changes,
    }


def claim(
    made_of: RunSpec | None, *results: tuple[str, str | None, str | None], name: str = "c", pool: str = "n1"
) -> dict[str, Any]:
    """`results` are device, memory, compute; None of a capacity is all of it."""
    given = []
    for device_, memory, compute in results:
        consumed = {key: value for key, value in (("memory", memory), ("compute", compute)) if value}
        given.append(
            {"request": "gpu", "driver": names.DRIVER, "pool": pool, "device": device_, "consumedCapacity": consumed}
        )
    config = [{"requests": ["gpu"], "opaque": {"driver": names.DRIVER, "parameters": {"ceiling": 700}}}]
    labels = manifests.labels(made_of, RULES) if made_of else {}
    namespace = manifests.namespace_of(made_of, RULES) if made_of else "elsewhere"
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{name}", "labels": labels},
        "spec": {"devices": {"config": config}},
        "status": {"allocation": {"devices": {"results": given, "config": config}}} if given else {},
    }
