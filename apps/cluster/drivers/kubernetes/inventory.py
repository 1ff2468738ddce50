"""The cluster as the portal's mirror shows it. Pure."""

from apps.cluster.drivers.kubernetes import quantities
from apps.cluster.drivers.kubernetes.adapters import Choice
from apps.cluster.drivers.kubernetes.objects import Manifest, node_health, status
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.specs import Card, Inventory, Resizing, Slicing
from apps.core import clock


def shown_cards(world: World, choice: Choice) -> tuple[Card, ...]:
    """From slices and claims where there are any, else as far as nodes and pods tell."""
    told = choice.adapter.cards(list(world.nodes.values()), world.all_pods())
    return world.cards() if told is None else told


def inventory(world: World, choice: Choice, *, silent_agents: bool) -> Inventory:
    """CPU and RAM are those of the largest machine: a run has to fit on one."""
    usable = [node for node in world.nodes.values() if node_health(node)[0]]
    notes = [*choice.notes, *(("agents_silent",) if silent_agents else ())]
    return Inventory(
        driver="kubernetes",
        observed_at=clock.now(),
        cards=shown_cards(world, choice),
        cpu_milli=max((quantities.milli(_allocatable(node, "cpu")) for node in usable), default=0),
        ram=max((quantities.whole(_allocatable(node, "memory")) for node in usable), default=0),
        isolation="pods_per_run",
        notes=tuple(notes),
        resizing=Resizing.WITHIN if choice.adapter.resizes else Resizing.NONE,
        slicing=Slicing(choice.adapter.name, choice.reason, choice.evidence, choice.adapter.cannot),
    )


def _allocatable(node: Manifest, resource: str) -> str:
    return str((status(node).get("allocatable") or {}).get(resource, "0"))
