"""Which adapter a cluster needs, by what it offers, and why: for the operator's page. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.adapters.base import SliceAdapter
from apps.cluster.drivers.kubernetes.adapters.device_plugin import DevicePlugin, units_of
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.adapters.hami import NODE_CARDS, Hami
from apps.cluster.drivers.kubernetes.cards import gives_parts
from apps.cluster.drivers.kubernetes.objects import Manifest, annotations, name_of
from apps.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Offers:
    """What was seen of a cluster."""

    claims_served: bool  # resource.k8s.io/v1
    classes: Sequence[str] = ()  # names of DeviceClasses
    slices: Sequence[Manifest] = ()  # ResourceSlices of our driver
    nodes: Sequence[Manifest] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """`reason` is a code of the catalogue."""

    adapter: SliceAdapter
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.reason, *(code for code in self.adapter.cannot if code != self.reason))


def choose(offers: Offers, wanted: str = "") -> Choice:
    """`wanted` names an adapter by the operator's decision; else the best that works here."""
    if wanted:
        return Choice(_by_name(wanted, offers), "slices_by_setting", {"adapter": wanted})
    if offers.claims_served and names.DRIVER in offers.classes:
        if not gives_parts(offers.slices):
            return Choice(Dra(fractions=False), "slices_whole_only")
        return Choice(Dra(), "slices_dra")
    with_hami = [name_of(node) for node in offers.nodes if annotations(node).get(NODE_CARDS)]
    if with_hami:
        return Choice(Hami(), "slices_hami", {"nodes": len(with_hami)})
    plugin = _resources(offers.nodes)
    if plugin:
        return Choice(DevicePlugin(offers.nodes), "slices_device_plugin", {"resources": plugin})
    return Choice(Dra(), "slices_none")


def _by_name(wanted: str, offers: Offers) -> SliceAdapter:
    if wanted == Dra.name:
        return Dra(fractions=gives_parts(offers.slices))
    if wanted == Hami.name:
        return Hami()
    if wanted == DevicePlugin.name:
        return DevicePlugin(offers.nodes)
    known = ", ".join((Dra.name, Hami.name, DevicePlugin.name))
    raise InvalidInput(f"There is no slice adapter “{wanted}”; known are {known}.")


def _resources(nodes: Iterable[Manifest]) -> list[str]:
    return sorted({unit.resource for node in nodes for unit, _ in units_of(node)})
