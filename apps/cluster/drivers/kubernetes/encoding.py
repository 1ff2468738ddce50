"""A RunSpec as JSON and back: what a pod carries, so that the portal's row can be made again from the cluster alone.

The run's environment variables are left out: they may hold secrets, and the portal derives them anyhow.
"""

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.core.share import GpuShare, Resources


def to_json(spec: RunSpec) -> str:
    plain = asdict(replace(spec, env={}, labels=dict(spec.labels)))
    del plain["env"]
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def hash_of(spec: RunSpec) -> str:
    return hashlib.sha256(to_json(spec).encode()).hexdigest()[:16]


def from_json(text: str) -> RunSpec:
    """Raises ValueError where this was not written by `to_json`."""
    try:
        return _spec(json.loads(text))
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no RunSpec: {problem!r}") from problem


def _spec(plain: dict[str, Any]) -> RunSpec:
    resources = plain["resources"]
    gpu = GpuShare(**resources["gpu"]) if resources["gpu"] else None
    return RunSpec(
        **plain
        | {
            "resources": Resources(gpu=gpu, cpu_milli=resources["cpu_milli"], ram=resources["ram"]),
            "command": tuple(plain["command"]),
            "ports": tuple(Port(**port) for port in plain["ports"]),
            "volumes": tuple(Volume(**volume) for volume in plain["volumes"]),
            "probe": Probe(**plain["probe"]) if plain["probe"] else None,
        }
    )
