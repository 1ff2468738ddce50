"""Shares in the words of HAMi: its scheduler places them, its library limits them. Cards are read from what it writes on nodes and pods."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.adapters.base import Manifest, Slice, refused
from apps.cluster.drivers.kubernetes.objects import annotations, is_terminal, labels, name_of, node_health
from apps.cluster.specs import Card, Holder, RunSpec
from apps.core.share import MIB, WHOLE, GpuShare

NODE_CARDS = "hami.io/node-nvidia-register"
POD_CARDS = "hami.io/vgpu-devices-allocated"
_PER_CENT = 10  # per mille in the unit of gpucores


class Hami:
    name = "hami"
    resizes = False
    cannot: tuple[str, ...] = ("hami_no_lending",)  # its limit is a ceiling: time that others leave idle stays idle

    def check(self, share: GpuShare) -> None:
        memory, compute = share.memory // MIB * MIB, -(-share.compute // _PER_CENT) * _PER_CENT
        if (memory, compute) != (share.memory, share.compute):
            nearest = GpuShare(share.count, memory, compute, max(compute, share.ceiling))
            raise refused("HAMi gives out whole MiB and whole per cent.", share, nearest)

    def slice(self, spec: RunSpec) -> Slice:
        share = spec.resources.gpu
        assert share is not None
        limits = {"nvidia.com/gpu": str(share.count), "nvidia.com/gpucores": str(share.compute // _PER_CENT)}
        if share.exclusive:
            limits["nvidia.com/gpumem-percentage"] = "100"
        else:
            limits["nvidia.com/gpumem"] = str(share.memory // MIB)
        return Slice(limits=limits)

    def cards(self, nodes: Sequence[Manifest], pods: Sequence[Manifest]) -> tuple[Card, ...]:
        held = _held(pods)
        return tuple(
            _card(node, index, device, held.get(device["id"], ()))
            for node in nodes
            for index, device in enumerate(_devices(annotations(node).get(NODE_CARDS, "")))
        )


def _card(node: Manifest, index: int, device: Mapping[str, Any], holders: Sequence[Holder]) -> Card:
    healthy, why = node_health(node)
    if healthy and not device["health"]:
        healthy, why = False, "gpu_lost"
    memory = int(device["devmem"]) * MIB
    return Card(
        uuid=device["id"],
        node=name_of(node),
        index=index,
        model=str(device["type"]).removeprefix("NVIDIA-"),
        memory=memory,
        physical_memory=memory,
        healthy=healthy,
        health_reason=why,
        holders=tuple(holders),
    )


def _devices(text: str) -> list[dict[str, Any]]:
    """Both forms that HAMi has written: JSON, and before that `uuid,count,memory,cores,type,numa,healthy` ended by a colon each."""
    if text.lstrip().startswith("["):
        try:
            return [{"health": True, "type": "GPU", **device} for device in json.loads(text)]
        except (ValueError, TypeError):
            return []
    devices = []
    for part in filter(None, text.split(":")):
        fields = part.split(",")
        if len(fields) >= 7 and fields[2].isdecimal():
            devices.append({"id": fields[0], "devmem": fields[2], "type": fields[4], "health": fields[6] == "true"})
    return devices


def _held(pods: Sequence[Manifest]) -> dict[str, list[Holder]]:
    held: dict[str, list[Holder]] = {}
    for pod in pods:
        if is_terminal(pod):
            continue
        uid = annotations(pod).get(names.UID) or labels(pod).get(names.WORKLOAD, "")
        for card, memory, compute in granted(pod):
            held.setdefault(card, []).append(Holder(uid, memory, compute, compute))
    return held


def granted(pod: Manifest) -> Iterator[tuple[str, int, int]]:
    """Card, bytes and per mille of each part: `uuid,vendor,MiB,per cent`, ended by a colon; containers end with a semicolon."""
    for part in annotations(pod).get(POD_CARDS, "").replace(";", ":").split(":"):
        fields = part.split(",")
        if len(fields) >= 4 and fields[2].isdecimal() and fields[3].isdecimal():
            yield fields[0], int(fields[2]) * MIB, min(int(fields[3]) * _PER_CENT, WHOLE)
