"""The API's names for the domain's amounts: they carry their unit."""

from collections.abc import Mapping
from typing import Any

from apps.api.plain import plain, resources
from apps.core.share import GpuShare, Resources

# Dimensions of the quota: name in the domain -> name here.
DIMENSIONS: Mapping[str, str] = {
    "gpu_memory": "gpu_memory_bytes",
    "gpu_compute": "gpu_compute_permille",
    "cpu_milli": "cpu_milli",
    "ram": "ram_bytes",
    "running": "running",
    "running_per_user": "running_per_user",
    "pending": "pending",
}
DOMAIN = {here: there for there, here in DIMENSIONS.items()}

# Evidence that names other people's workloads; who may see them asks for them by their own address.
_INTERNAL = frozenset({"holders", "uid", "uids"})


def evidence(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Evidence as callers may see it."""
    return {str(key): _fact(str(key), value) for key, value in (facts or {}).items() if key not in _INTERNAL}


def _fact(key: str, value: Any) -> Any:
    if key == "nearest" and isinstance(value, Mapping):
        return resources(_resources(value))
    if key == "dimension":
        return DIMENSIONS.get(str(value), str(value))
    if isinstance(value, Mapping):
        return evidence(value)
    if isinstance(value, list | tuple):
        return [_fact("", item) for item in value]
    return plain(value)


def _resources(value: Mapping[str, Any]) -> Resources:
    """Back from `dataclasses.asdict`, as the services put it into evidence."""
    gpu = value["gpu"]
    return Resources(GpuShare(**gpu) if gpu else None, value["cpu_milli"], value["ram"])
