"""Fake nodes with fake cards: what the scheduler sees of a large cluster. kwok plays their kubelets; no pod really runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.cluster.api import Api, Refused
from tests.cluster.parts import FAKE_NODE

DRIVER: Final = "gpu.tessera.dev"
_AT_ONCE: Final = 16
_CONFLICT: Final = 409


def make(api: Api, count: int, cards: int) -> None:
    """`count` fake nodes in all, each with one slice of `cards` cards; those that are there stay."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(_make, api, number, cards) for number in range(count)]:
            done.result()


def names(api: Api) -> list[str]:
    nodes = api.get("/api/v1/nodes", labelSelector="type=kwok")["items"]
    return [node["metadata"]["name"] for node in nodes]


def node(number: int) -> dict[str, Any]:
    name = f"fake-{number:04d}"
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE: "fake"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "status": {"allocatable": room, "capacity": room},
    }


def resource_slice(name: str, uid: str, cards: int) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"{name}-{DRIVER}",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_card(name, index) for index in range(cards)],
        },
    }


def _card(name: str, index: int) -> dict[str, Any]:
    """As the node agent describes an H100."""
    number = int(name.rpartition("-")[2]) * 16 + index
    whole = {"memory": "80Gi", "compute": "1000"}
    steps = {"memory": ("1Mi", "1Mi"), "compute": ("1", "1")}
    return {
        "name": f"gpu-{index}",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": f"GPU-{number:08x}-0000-4000-8000-000000000000"},
            "model": {"string": "NVIDIA H100 80GB HBM3"},
            "architecture": {"string": "hopper"},
            "driverVersion": {"version": "580.0.0"},
            "cudaVersion": {"version": "13.0.0"},
            "index": {"int": index},
            "simulated": {"bool": True},
            "numaNode": {"int": index // 4},
        },
        "capacity": {
            key: {
                "value": value,
                "requestPolicy": {"default": value, "validRange": {"min": steps[key][0], "step": steps[key][1]}},
            }
            for key, value in whole.items()
        },
    }


def _make(api: Api, number: int, cards: int) -> None:
    wanted = node(number)
    name = wanted["metadata"]["name"]
    try:
        uid = api.post("/api/v1/nodes", wanted)["metadata"]["uid"]
    except Refused as refused:
        if refused.status != _CONFLICT:
            raise
        uid = api.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
    if cards:
        try:
            api.post("/apis/resource.k8s.io/v1/resourceslices", resource_slice(name, uid, cards))
        except Refused as refused:
            if refused.status != _CONFLICT:
                raise
