"""Who waits for a card, and who gets one when there is room: the oldest first, a later one only where those before it have no room now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.cluster.drivers.local.inventory import with_promises
from apps.cluster.drivers.local.placement import Grant, place, why_not
from apps.cluster.drivers.local.records import PLACED, Record
from apps.cluster.drivers.local.site import machine_cpu_milli
from apps.cluster.specs import Card, RunState


@dataclass(frozen=True, slots=True)
class Place:
    """Empty grants: a run without GPU."""

    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Waits:
    reason: str
    evidence: dict[str, Any]


def turns(records: Iterable[Record]) -> list[Record]:
    return sorted((r for r in records if r.state is RunState.WAITING), key=lambda r: (r.accepted_at, r.uid))


def decide(record: Record, cards: Sequence[Card] | None, others: Sequence[Record], ram: int) -> Place | Waits:
    """A place for `record` beside `others`, or why it has to wait. `cards` None: nobody has ever told us what there is.

    RAM is promised like GPU memory, since running out of it kills somebody; CPU time is not, it only gets slower.
    """
    asked = record.spec.resources
    held = sum(other.spec.resources.ram for other in others if other.state in PLACED)
    if asked.ram > ram - held:
        code = "never_fits_machine" if asked.ram > ram else "waiting_machine"
        evidence = {
            "asked_milli": asked.cpu_milli,
            "cpu_milli": asked.cpu_milli,
            "largest_milli": machine_cpu_milli(),
            "asked_bytes": asked.ram,
            "ram_bytes": asked.ram,
            "room_bytes": max(ram - held, 0),
            "largest_bytes": ram,
        }
        return Waits(code, evidence)
    if asked.gpu is None:
        return Place()
    if cards is None:
        return Waits("agent_unavailable", {})
    present = with_promises(cards, [other for other in others if other.uid != record.uid])
    grants = place(asked.gpu, present)
    return Place(grants) if grants is not None else Waits(*why_not(asked.gpu, present))
