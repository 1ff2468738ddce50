"""Shares on clusters with NVIDIA's device plugin: whole cards, MIG slices, time-sliced replicas. It tells neither which card a pod
got nor of pods that are not ours, so what is shown of cards is an estimate.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.cluster.drivers.kubernetes import quantities
from apps.cluster.drivers.kubernetes.adapters.base import Manifest, Slice, refused
from apps.cluster.drivers.kubernetes.objects import is_terminal, labels, name_of, node_health, node_of, spec, status
from apps.cluster.drivers.kubernetes.objects import workload_of as owner_of
from apps.cluster.specs import Card, Holder, RunSpec
from apps.core.share import GIB, MIB, WHOLE, GpuShare

GPU = "nvidia.com/gpu"
_MIG = re.compile(r"nvidia\.com/mig-(?P<slices>\d+)g\.(?P<memory>\d+)gb(\..+)?")
_MIG_SLICES = 7  # of a card's compute, on all cards that have MIG


@dataclass(frozen=True, slots=True)
class Unit:
    """What one piece of a resource is worth: a card, a MIG slice, a replica."""

    resource: str
    memory: int
    compute: int


def units_of(node: Manifest) -> list[tuple[Unit, int]]:
    """What a node offers, each with how many there are."""
    told = labels(node)
    memory = _number(told.get("nvidia.com/gpu.memory")) * MIB
    found = []
    for resource, amount in (status(node).get("allocatable") or {}).items():
        count = quantities.whole(amount) if resource.startswith("nvidia.com/") else 0
        mig = _MIG.fullmatch(resource)
        if count and mig:
            unit = Unit(resource, int(mig["memory"]) * GIB, WHOLE * int(mig["slices"]) // _MIG_SLICES)
            found.append((unit, count))
        elif count and resource == GPU:
            replicas = max(_number(told.get("nvidia.com/gpu.replicas")), 1)
            found.append((Unit(GPU, memory // replicas, WHOLE // replicas), count))
    return found


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


class DevicePlugin:
    name = "device-plugin"
    resizes = False

    def __init__(self, nodes: Sequence[Manifest]) -> None:
        """`nodes` as they are now: they say what can be asked for."""
        self._units = sorted(
            {unit for node in nodes for unit, _ in units_of(node)}, key=lambda u: (u.compute, u.memory)
        )
        replicas = any(unit.resource == GPU and unit.compute < WHOLE for unit in self._units)
        self.cannot: tuple[str, ...] = ("plugin_fixed_sizes", *(("plugin_replicas_unlimited",) if replicas else ()))

    def check(self, share: GpuShare) -> None:
        if not self._units:
            return  # nodes are away: nothing is concluded
        if self._unit(share) is None:
            raise refused("This cluster gives out GPUs in fixed sizes.", share, self._nearest(share))

    def slice(self, spec: RunSpec) -> Slice:
        share = spec.resources.gpu
        assert share is not None
        unit = self._unit(share)
        return Slice(limits={unit.resource if unit else GPU: str(share.count)})

    def _unit(self, share: GpuShare) -> Unit | None:
        """The smallest that holds the share; more than a third too large would waste what others could use, so it is not given."""
        for unit in self._units:
            fits = unit.compute >= share.compute and unit.memory >= share.memory
            if fits and (share.exclusive or unit.compute * 3 <= share.compute * 4):
                return unit
        return None

    def _nearest(self, share: GpuShare) -> GpuShare | None:
        roomy = [u for u in self._units if u.compute >= share.compute and u.memory >= share.memory]
        unit = roomy[0] if roomy else self._units[-1]
        if unit.memory < MIB:
            return None
        return GpuShare(share.count, unit.memory, unit.compute, unit.compute)

    def cards(self, nodes: Sequence[Manifest], pods: Sequence[Manifest]) -> tuple[Card, ...]:
        by_node: dict[str, list[Manifest]] = {}
        for pod in pods:
            if not is_terminal(pod):
                by_node.setdefault(node_of(pod), []).append(pod)
        return tuple(card for node in nodes for card in _cards(node, by_node.get(name_of(node), ())))


def _cards(node: Manifest, pods: Sequence[Manifest]) -> Iterator[Card]:
    """One per physical card where replicas tell how many there are, else one per piece; pods fill them in order."""
    index = 0
    for unit, count in units_of(node):
        healthy, why = node_health(node) if unit.memory else (False, "gpu_memory_unknown")  # no GPU feature discovery
        each = WHOLE // unit.compute if unit.resource == GPU else 1
        holders = [
            Holder(owner_of(pod), unit.memory, unit.compute, unit.compute)
            for pod in pods
            for _ in range(_taken(pod, unit.resource))
        ]
        for number in range(-(-count // each)):
            yield Card(
                uuid=f"{name_of(node)}/{unit.resource.partition('/')[2]}-{number}",
                node=name_of(node),
                index=index,
                model=labels(node).get("nvidia.com/gpu.product", "GPU"),
                memory=unit.memory * each,
                physical_memory=unit.memory * each,
                healthy=healthy,
                health_reason=why,
                attributes={"estimated": True, "unit": unit.resource},
                holders=tuple(holders[number * each : (number + 1) * each]),
            )
            index += 1


def _taken(pod: Mapping[str, Any], resource: str) -> int:
    containers = spec(pod).get("containers") or ()
    return sum(quantities.whole((one.get("resources") or {}).get("limits", {}).get(resource, 0)) for one in containers)
