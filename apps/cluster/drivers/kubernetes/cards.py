"""Cards from ResourceSlices, and who holds which part of them from ResourceClaims. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.cluster.drivers.kubernetes import names, quantities
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    annotations,
    key_of,
    node_health,
    spec,
    status,
    workload_of,
)
from apps.cluster.specs import Card, Holder
from apps.core.share import WHOLE

Place = tuple[str, str]  # pool, device
_KNOWN = ("uuid", "index", "model", "simulated", "physicalMemory")  # attributes with a field of their own
_RENAMED = {
    "driverVersion": "driver_version",
    "cudaVersion": "cuda_version",
    "numaNode": "numa_node",
    "limitsReason": "limits_reason",
    "wholeReason": "whole_reason",
    "resource.kubernetes.io/pcieRoot": "pcie_root",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one claim holds of one card; None is all of it. `limit` bytes of `memory` may be used now, where that was made less."""

    place: Place
    holder: str
    memory: int | None
    compute: int | None
    ceiling: int
    limit: int | None = None

    def of(self, card: Card) -> Holder:
        memory = card.memory if self.memory is None else self.memory
        compute = WHOLE if self.compute is None else self.compute
        return Holder(self.holder, memory, compute, max(self.ceiling, compute))


def is_ours(slice_: Mapping[str, Any]) -> bool:
    return spec(slice_).get("driver") == names.DRIVER


def pool_of(slice_: Mapping[str, Any]) -> str:
    return str((spec(slice_).get("pool") or {}).get("name", ""))


def newest(slices: Iterable[Manifest]) -> list[Manifest]:
    """Of the slices of one pool those of its newest generation; older ones are about to be deleted."""
    by_generation: dict[int, list[Manifest]] = {}
    for slice_ in slices:
        by_generation.setdefault(int((spec(slice_).get("pool") or {}).get("generation", 0)), []).append(slice_)
    return by_generation[max(by_generation)] if by_generation else []


def cards_of(slice_: Manifest) -> dict[Place, Card]:
    """Without holders; whether they are healthy by their taints alone."""
    pool, node = pool_of(slice_), str(spec(slice_).get("nodeName") or "")
    devices: Sequence[Mapping[str, Any]] = spec(slice_).get("devices") or ()
    return {(pool, device["name"]): _card(pool, node, device) for device in devices if device.get("name")}


def gives_parts(slices: Iterable[Manifest]) -> bool:
    """Whether the API server keeps consumable capacity: without it the field is dropped when a slice is written."""
    devices = [device for slice_ in slices for device in spec(slice_).get("devices") or ()]
    return not devices or any(device.get("allowMultipleAllocations") for device in devices)


def _card(pool: str, node: str, device: Mapping[str, Any]) -> Card:
    told = {_short(name): _plain(value) for name, value in (device.get("attributes") or {}).items()}
    sizes = {_short(name): quantities.whole(c["value"]) for name, c in (device.get("capacity") or {}).items()}
    memory = sizes.get("memory", 0)
    why = _trouble(device.get("taints") or ())
    return Card(
        uuid=str(told.get("uuid") or f"{pool}/{device['name']}"),
        node=node,
        index=int(told.get("index") or 0),
        model=str(told.get("model") or "GPU"),
        memory=memory,
        physical_memory=int(told.get("physicalMemory") or memory),
        healthy=not why,
        health_reason=why,
        simulated=bool(told.get("simulated")),
        attributes={_RENAMED.get(name, name): value for name, value in told.items() if name not in _KNOWN},
    )


def _short(name: str) -> str:
    return name.removeprefix(f"{names.DRIVER}/")


def _plain(value: Mapping[str, Any]) -> Any:
    return next(iter(value.values()), None)


def _trouble(taints: Sequence[Mapping[str, Any]]) -> str:
    """The code of the first taint that keeps claims away."""
    for taint in taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute"):
            return str(taint.get("value") or str(taint.get("key", "")).rpartition("/")[2])[:200]
    return ""


# --- Claims --------------------------------------------------------------------------------------------------------------
def parts_of(claim: Manifest) -> list[Part]:
    """What an allocated claim holds of our cards. Claims that are not of the portal hold room as well."""
    allocation = (status(claim).get("allocation") or {}).get("devices") or {}
    holder = workload_of(claim) or "/".join(key_of(claim))
    ceilings = _ceilings([*(allocation.get("config") or ()), *((spec(claim).get("devices") or {}).get("config") or ())])
    limits = limits_of(claim)
    return [
        _part(result, holder, ceilings, limits)
        for result in allocation.get("results") or ()
        if result.get("driver") == names.DRIVER and not result.get("adminAccess")
    ]


def _part(result: Mapping[str, Any], holder: str, ceilings: Mapping[str, int], limits: Mapping[str, int]) -> Part:
    consumed = {_short(name): amount for name, amount in (result.get("consumedCapacity") or {}).items()}
    request = str(result.get("request", "")).partition("/")[0]  # of a list of alternatives "request/alternative"
    return Part(
        place=(str(result.get("pool", "")), str(result.get("device", ""))),
        holder=holder,
        memory=quantities.whole(consumed["memory"]) if "memory" in consumed else None,
        compute=quantities.whole(consumed["compute"]) if "compute" in consumed else None,
        ceiling=limits.get("ceiling", ceilings.get(request, ceilings.get("", 0))),
        limit=limits.get("memory"),
    )


def limits_of(claim: Mapping[str, Any]) -> dict[str, int]:
    """Empty where there are none, or what is there is not ours."""
    try:
        found = json.loads(annotations(claim).get(names.LIMITS, "{}"))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: found[key] for key in ("memory", "ceiling") if type(found.get(key)) is int and found[key] > 0}


def _ceilings(configs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """By request; "" is for all of them. The first one that speaks counts."""
    found: dict[str, int] = {}
    for config in configs:
        opaque = config.get("opaque") or {}
        ceiling = (opaque.get("parameters") or {}).get("ceiling")
        if opaque.get("driver") == names.DRIVER and isinstance(ceiling, int):
            for request in config.get("requests") or ("",):
                found.setdefault(request, ceiling)
    return found


def with_holders(card: Card, parts: Iterable[Part], node: Manifest | None) -> Card:
    """As the portal shows it: a healthy card of a node that does not answer can be given to nobody."""
    holders = tuple(sorted((part.of(card) for part in parts), key=lambda holder: holder.uid))
    healthy, why = (False, card.health_reason) if not card.healthy else node_health(node)
    return replace(card, holders=holders, healthy=healthy, health_reason=why)
