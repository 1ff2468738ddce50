"""Other limits for a claim that is in use: what the scheduler has allocated stays, an annotation on the claim says how much of it may be used.

The annotation is the truth: the node agent reads it when it prepares the claim, when it starts, every few minutes, and when it is asked
to. Being asked it says what is in force, so nothing counts as changed before it is. Pure but for the types.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.cluster.drivers.kubernetes import cards, names
from apps.cluster.drivers.kubernetes.api import ClusterUnavailable
from apps.cluster.drivers.kubernetes.objects import Manifest
from apps.cluster.specs import RunSpec
from apps.core.errors import Conflict
from apps.core.share import WHOLE, GpuShare


def annotation(share: GpuShare) -> dict[str, str]:
    """Bytes on each card, and per mille."""
    limits = {"ceiling": share.ceiling, "memory": share.memory}
    return {names.LIMITS: json.dumps(limits, separators=(",", ":"))}


def kept(claim: Manifest, share: GpuShare) -> GpuShare:
    """What the cluster keeps for the claim, with the ceiling of `share`. Raises Conflict where `share` is not within it."""
    parts = cards.parts_of(claim)
    shared = all(part.memory is not None and part.compute not in (None, WHOLE) for part in parts)
    if not parts or not shared or share.count != len(parts) or share.exclusive:
        raise Conflict(
            "The number of GPUs, and whether they are whole ones, stay as they are.", code="resize_not_offered"
        )
    memory, compute = min(part.memory or 0 for part in parts), min(part.compute or 0 for part in parts)
    if share.memory > memory or share.compute != compute:
        evidence = {
            **{"asked_bytes": share.memory, "asked_permille": share.compute},
            **{"room_bytes": memory, "room_permille": compute},
        }
        raise Conflict("The cluster keeps no more than this for it.", code="resize_claim", evidence=evidence)
    return replace(share, memory=memory)


def check(devices: Iterable[Mapping[str, Any]], share: GpuShare) -> None:
    """What the agent has read back, against what was asked for."""
    found = [(device.get("memory"), device.get("ceiling")) for device in devices]
    if found != [(share.memory, share.ceiling)] * share.count:
        raise ClusterUnavailable("The node agent has not taken over the new limits yet.", evidence={"found": found})


def as_it_is(spec: RunSpec, claims: Sequence[Manifest]) -> RunSpec:
    """The spec that a run began with, with the limits that it has now."""
    gpu = spec.resources.gpu
    told = next((limits for claim in claims if (limits := cards.limits_of(claim))), None)
    if gpu is None or told is None:
        return spec
    memory, ceiling = told.get("memory", gpu.memory), told.get("ceiling", gpu.ceiling)
    share = replace(gpu, memory=min(memory, gpu.memory), ceiling=max(min(ceiling, WHOLE), gpu.compute))
    return replace(spec, resources=replace(spec.resources, gpu=share))
