"""Shares as claims with consumable capacity: kube-scheduler itself places them, and the node agent keeps the limits (docs/adr/0007)."""

from collections.abc import Sequence
from typing import Any

from apps.cluster.drivers.kubernetes import names, quantities
from apps.cluster.drivers.kubernetes.adapters.base import Manifest, Slice, refused
from apps.cluster.specs import RunSpec
from apps.core.share import WHOLE, GpuShare

REQUEST = "gpu"  # of the claim, and the claim's name in the pod
PARAMETERS = {"apiVersion": f"{names.DOMAIN}/v1", "kind": "ShareConfig"}


class Dra:
    name = "dra"
    resizes = True

    def __init__(self, *, fractions: bool = True) -> None:
        """`fractions` False: the API server keeps no consumable capacity, so there are whole cards only."""
        self._fractions = fractions
        self.cannot: tuple[str, ...] = () if fractions else ("slices_whole_only",)

    def check(self, share: GpuShare) -> None:
        if not self._fractions and not share.exclusive:
            whole = GpuShare(share.count, share.memory, WHOLE, WHOLE)
            raise refused("This cluster gives out whole GPUs only.", share, whole)

    def slice(self, spec: RunSpec) -> Slice:
        share = spec.resources.gpu
        assert share is not None
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {},
            "spec": claim_spec(share),
        }
        return Slice(
            objects=(claim,),
            pod={"resourceClaims": [{"name": REQUEST, "resourceClaimName": names.run_name(spec.uid, spec.run)}]},
            claims=({"name": REQUEST},),
        )

    def cards(self, _nodes: Sequence[Manifest], _pods: Sequence[Manifest], /) -> None:
        return None


def claim_spec(share: GpuShare) -> Manifest:
    """All cards of a share lie on one node by the nature of claims. Of a whole card no capacity is named: the default is all of it."""
    exactly: dict[str, Any] = {"deviceClassName": names.DRIVER, "count": share.count}
    if not share.exclusive:
        exactly["capacity"] = {
            "requests": {"memory": quantities.bytes_text(share.memory), "compute": str(share.compute)}
        }
    spec: Manifest = {
        "devices": {
            "requests": [{"name": REQUEST, "exactly": exactly}],
            "config": [
                {
                    "requests": [REQUEST],
                    "opaque": {
                        "driver": names.DRIVER,
                        "parameters": {**PARAMETERS, "ceiling": share.ceiling, "priority": 0},
                    },
                }
            ],
        }
    }
    if (
        share.count > 1
    ):  # a share promises equal parts of equal cards, and of different ones: a card may be given out several times
        spec["devices"]["constraints"] = [
            {"requests": [REQUEST], "matchAttribute": f"{names.DRIVER}/model"},
            {"requests": [REQUEST], "distinctAttribute": f"{names.DRIVER}/uuid"},
        ]
    return spec
