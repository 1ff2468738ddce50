"""The registry of kinds: what layer 6 tells this layer about experiments, and later jobs and endpoints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.cluster.specs import RunSpec
from apps.workloads.models import Workload


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    build_spec: Callable[[Workload], RunSpec]
    volumes_to_remove: Callable[[Workload], Sequence[str]]  # asked when a deleted workload is gone
    adopt: Callable[[Workload, RunSpec], None]  # make the kind's own row for one that was found in the cluster


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    _kinds[kind.name] = kind


def is_known(name: str) -> bool:
    return name in _kinds


def get(name: str) -> Kind:
    """Raises KeyError for a kind that this release does not know (a row of a newer one)."""
    return _kinds[name]
