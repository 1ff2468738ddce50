"""Which cards a share goes to. Pure: looks at cards and their holders, changes nothing.

Best fit: of all cards with room, those that the share fills best, so that large room stays whole for large shares. The parts on
one card never sum to more than the card, neither in memory nor in compute.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.cluster.specs import Card
from apps.core.share import WHOLE, GpuShare


@dataclass(frozen=True, slots=True)
class Grant:
    """The part of one card that a run was given. `memory` is the whole card's where the share is exclusive."""

    card: str
    memory: int
    compute: int
    ceiling: int


def place(share: GpuShare, cards: Iterable[Card]) -> tuple[Grant, ...] | None:
    """`share.count` different cards, or None while there is no room for all of them at once."""
    fitting = sorted((card for card in cards if card.healthy and fits(share, card)), key=lambda c: _left_over(share, c))
    if len(fitting) < share.count:
        return None
    return tuple(_grant(share, card) for card in fitting[: share.count])


def could_ever_fit(share: GpuShare, cards: Iterable[Card]) -> bool:
    """Whether there would be room, were all cards empty and healthy."""
    return sum(card.memory >= share.memory for card in cards) >= share.count


def fits(share: GpuShare, card: Card) -> bool:
    if share.exclusive and card.holders:
        return False
    return card.free_memory >= share.memory and card.free_compute >= share.compute


def _grant(share: GpuShare, card: Card) -> Grant:
    memory = card.memory if share.exclusive else share.memory
    return Grant(card=card.uuid, memory=memory, compute=share.compute, ceiling=share.ceiling)


def _left_over(share: GpuShare, card: Card) -> tuple[float, int, int, str]:
    """How much of the card stays empty, as parts of the card; of equals the smaller card, then the first one."""
    memory = (card.free_memory - share.memory) / card.memory
    compute = (card.free_compute - share.compute) / WHOLE
    return memory + compute, card.memory, card.index, card.uuid


def why_not(share: GpuShare, cards: Sequence[Card]) -> tuple[str, dict[str, Any]]:
    """Reason code and evidence for a share that has no room now: what it needs, what each card has left, who holds it."""
    usable = [card for card in cards if card.healthy]
    room = max(
        usable, key=lambda c: (min(c.free_memory, share.memory), min(c.free_compute, share.compute)), default=None
    )
    evidence = {
        "asked_gpus": share.count,
        "asked_bytes": share.memory,
        "asked_permille": share.compute,
        "memory_bytes": share.memory,
        "compute_permille": share.compute,
        "room_bytes": max(room.free_memory, 0) if room else 0,
        "room_permille": max(room.free_compute, 0) if room else 0,
        "largest_bytes": max((card.memory for card in cards), default=0),
        "gpus": len(usable),
        "cards": [_described(card) for card in cards],
    }
    if not usable:
        return "no_cards", evidence
    return ("waiting_card" if could_ever_fit(share, cards) else "never_fits_card"), evidence


def _described(card: Card) -> dict[str, Any]:
    return {
        "uuid": card.uuid,
        "index": card.index,
        "model": card.model,
        "node": card.node,
        "healthy": card.healthy,
        "free_bytes": max(card.free_memory, 0),
        "free_permille": max(card.free_compute, 0),
        "holders": [{"uid": h.uid, "memory": h.memory, "compute": h.compute} for h in card.holders],
    }
