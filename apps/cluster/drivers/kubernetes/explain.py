"""Why a pod has no place. The scheduler says only "cannot allocate all claims", so it is worked out from cards and holders. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from apps.cluster.specs import Card
from apps.core.share import GpuShare, Resources

Reason = tuple[str, dict[str, Any]]

NO_CLAIM = "cannot allocate all claims"  # all that the scheduler says of cards
SHOWN = 16  # cards in the evidence; of a large cluster those that come closest
_VOLUME = re.compile(r"persistentvolumeclaim|volume node affinity|volume binding", re.IGNORECASE)
_MACHINE = re.compile(r"insufficient (cpu|memory|ephemeral-storage)|too many pods", re.IGNORECASE)


def why_waiting(asked: Resources, cards: Sequence[Card], message: str) -> Reason:
    """`message` is the scheduler's."""
    if _VOLUME.search(message):
        return "volume_not_bound", {"problem": message}
    if asked.gpu is not None:
        reason, evidence, has_room = why_no_card(asked.gpu, cards)
        if not has_room:
            return reason, {**evidence, "problem": message}
    if _MACHINE.search(message):
        facts = {"cpu_milli": asked.cpu_milli, "ram_bytes": asked.ram, "asked_bytes": asked.ram, "problem": message}
        return "waiting_node", facts
    return "waiting_scheduler", {"problem": message}


def why_no_card(share: GpuShare, cards: Sequence[Card]) -> tuple[str, dict[str, Any], bool]:
    """Reason, evidence, and whether there is room after all (then something else is in the way)."""
    usable = [card for card in cards if card.healthy]
    by_node = _by_node(usable)
    has_room = any(sum(fits(share, card) for card in on_node) >= share.count for on_node in by_node)
    nearest = sorted(usable, key=lambda card: _closeness(share, card), reverse=True)
    room = nearest[0] if nearest else None
    others = [card for card in cards if not card.healthy]
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
        "cards": [described(card) for card in (*nearest, *others)[:SHOWN]],
    }
    if not usable:
        return "no_cards", evidence, False
    return ("waiting_card" if could_ever_fit(share, cards) else "never_fits_card"), evidence, has_room


def fits(share: GpuShare, card: Card) -> bool:
    if share.exclusive and card.holders:
        return False
    return card.free_memory >= share.memory and card.free_compute >= share.compute


def could_ever_fit(share: GpuShare, cards: Iterable[Card]) -> bool:
    """Whether some machine would have room, were its cards empty and healthy."""
    return any(sum(card.memory >= share.memory for card in on_node) >= share.count for on_node in _by_node(cards))


def _by_node(cards: Iterable[Card]) -> list[list[Card]]:
    found: dict[str, list[Card]] = {}
    for card in cards:
        found.setdefault(card.node, []).append(card)
    return list(found.values())


def _closeness(share: GpuShare, card: Card) -> tuple[int, int, int, int]:
    memory, compute = max(card.free_memory, 0), max(card.free_compute, 0)
    return min(memory, share.memory), min(compute, share.compute), memory, compute


def described(card: Card) -> dict[str, Any]:
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
