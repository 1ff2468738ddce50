"""The seam between a share and the cluster's own words for it. Only adapters know the names of resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from apps.cluster.specs import Card, RunSpec
from apps.core.errors import NeverFits
from apps.core.share import MIB, GpuShare

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """What a share adds to a run's objects."""

    objects: tuple[Manifest, ...] = ()  # must be there before the pod; name, namespace and labels are added
    pod: Mapping[str, Any] = field(default_factory=dict)  # merged into the pod's spec
    claims: tuple[Mapping[str, str], ...] = ()  # of the container
    limits: Mapping[str, str] = field(default_factory=dict)  # of the container
    annotations: Mapping[str, str] = field(default_factory=dict)


class SliceAdapter(Protocol):
    name: str
    resizes: bool  # limits can change while it runs, within what was allocated
    cannot: tuple[str, ...]  # codes of the catalogue: what operators should know that it does not do

    def check(self, share: GpuShare) -> None:
        """Raises NeverFits, naming the nearest choice, for what cannot be expressed at all."""

    def slice(self, spec: RunSpec) -> Slice:
        """Only for a spec with a share that `check` lets pass."""

    def cards(self, nodes: Sequence[Manifest], pods: Sequence[Manifest], /) -> tuple[Card, ...] | None:
        """Cards as far as nodes and our pods tell of them. None: slices and claims do, which is better."""


def refused(message: str, share: GpuShare, nearest: GpuShare | None) -> NeverFits:
    evidence: dict[str, Any] = {
        "asked_gpus": share.count,
        "asked_bytes": share.memory,
        "asked_permille": share.compute,
        "problem": message,
        "nearest": None,
    }
    hint = ""
    if nearest is not None:
        evidence["nearest"] = {
            "count": nearest.count,
            "memory": nearest.memory,
            "compute": nearest.compute,
            "ceiling": nearest.ceiling,
        }
        hint = f"The nearest choice here: {described(nearest)}."
    return NeverFits(f"{message} {hint}".strip(), code="share_not_expressible", hint=hint, evidence=evidence)


def described(share: GpuShare) -> str:
    each = f"{share.memory // MIB} MiB and {share.compute / 10:g} %"
    return each + (f" on each of {share.count} GPUs" if share.count > 1 else " of a GPU")
