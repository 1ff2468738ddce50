"""The cards of this machine as the devices of a ResourceSlice. Pure, but for one look at where a card is plugged in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from vcuda.node.claims import WHOLE
from vcuda.node.dra.allocation import COMPUTE, DRIVER, MEMORY, device_name
from vcuda.node.dra.quantity import parse_quantity
from vcuda.node.nvml import MIB, CardFacts

Json = dict[str, Any]

API: Final = "resource.k8s.io/v1"
TAINT: Final = f"{DRIVER}/unhealthy"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
LOST: Final = "gpu_lost"  # what runs there cannot go on; for all else nothing new comes to the card
_LEAST: Final = 64 * MIB  # that a claim has of a card
_SIMULATED_ROOT: Final = "pci0000:00"
_LONGEST: Final = 64  # characters of an attribute, and one more than of a taint's value
_SYS: Final = Path("/sys/bus/pci/devices")


def slice_name(node: str) -> str:
    return f"{node}-{DRIVER}"


def build_slice(node: str, owner: Json, devices: Sequence[Json], generation: int) -> Json:
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(node),
            "labels": {"app.kubernetes.io/managed-by": "tessera"},
            "ownerReferences": [owner],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def build_devices(
    cards: Sequence[CardFacts], illness: Mapping[str, str], *, simulated: bool, sys: Path = _SYS
) -> list[Json]:
    """`illness` maps a card's UUID to why it cannot be trusted; nothing or an empty text for a healthy one."""
    return [
        {
            "name": device_name(card),
            "attributes": _attributes(card, simulated=simulated, sys=sys),
            "capacity": {
                MEMORY: _capacity(f"{card.allocatable // MIB}Mi", least=f"{_LEAST // MIB}Mi", step="1Mi"),
                COMPUTE: _capacity(str(WHOLE), least="1", step="1"),
            },
            "allowMultipleAllocations": True,
            **_taints(illness.get(card.uuid, "")),
        }
        for card in sorted(cards, key=lambda card: card.index)
    ]


def essence(spec: Mapping[str, Any]) -> Any:
    """What two slices must have in common to say the same; the server writes quantities its own way and adds times."""
    return (
        spec.get("driver"),
        spec.get("nodeName"),
        (spec.get("pool") or {}).get("name"),
        (spec.get("pool") or {}).get("resourceSliceCount"),
        [
            (
                device.get("name"),
                device.get("attributes") or {},
                {name: _amounts(capacity) for name, capacity in (device.get("capacity") or {}).items()},
                bool(device.get("allowMultipleAllocations")),
                [(taint.get("key"), taint.get("value"), taint.get("effect")) for taint in device.get("taints") or ()],
            )
            for device in spec.get("devices") or ()
        ],
    )


def _capacity(value: str, *, least: str, step: str) -> Json:
    """Shared out in steps; whoever asks for nothing gets everything."""
    return {"value": value, "requestPolicy": {"default": value, "validRange": {"min": least, "step": step}}}


def _amounts(capacity: Mapping[str, Any]) -> list[int | None]:
    policy = capacity.get("requestPolicy") or {}
    bounds = policy.get("validRange") or {}
    found = (capacity.get("value"), policy.get("default"), bounds.get("min"), bounds.get("step"), bounds.get("max"))
    return [None if amount is None else parse_quantity(amount) for amount in found]


def _taints(reason: str) -> Json:
    if not reason:
        return {}
    value = re.sub(r"[^A-Za-z0-9_.-]", "_", reason)[: _LONGEST - 1].strip("_.-")
    return {"taints": [{"key": TAINT, "value": value, "effect": "NoExecute" if reason == LOST else "NoSchedule"}]}


def _attributes(card: CardFacts, *, simulated: bool, sys: Path) -> Json:
    told = card.attributes
    root = _SIMULATED_ROOT if simulated else _pcie_root(str(told.get("pci", "")), sys)
    numa = told.get("numa_node")
    found: Json = {
        "uuid": _text(card.uuid),
        "model": _text(card.model),
        "architecture": _text(told.get("architecture")),
        "driverVersion": _version(told.get("driver_version")),
        "cudaVersion": _version(told.get("cuda_version")),
        "index": {"int": card.index},
        "simulated": {"bool": simulated},
        "numaNode": {"int": numa} if isinstance(numa, int) and 0 <= numa < 1 << 16 else None,
        "limits": _text(told.get("limits")),
        "limitsReason": _text(told.get("limits_reason")),
        "whole": _text(told.get("whole")),
        "wholeReason": _text(told.get("whole_reason")),
        PCIE_ROOT: _text(root),
    }
    return {name: value for name, value in found.items() if value is not None}


def _text(value: object) -> Json | None:
    return {"string": str(value)[:_LONGEST]} if value else None


def _version(value: object) -> Json | None:
    """As three plain numbers, which selectors can compare ("535.54.03" is no semantic version)."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", str(value or ""))
    return {"version": ".".join(str(int(part or 0)) for part in found.groups())} if found else None


def _pcie_root(address: str, sys: Path) -> str | None:
    """The root complex under which a card with this PCI address lies; NVML writes the domain with eight digits."""
    found = re.fullmatch(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", address.lower())
    if found is None or not (sys / found[1]).exists():
        return None
    steps = (sys / found[1]).resolve().parts
    return next((step for step in steps if re.fullmatch(r"pci[0-9a-f]{4}:[0-9a-f]{2}", step)), None)
