"""Reads the inventory mirror: cards, the site as a whole, and whether a share has room. Every answer is as old as `observed_at`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from apps.cluster.models import Gpu, Site
from apps.core.share import WHOLE, GpuShare, cut_share


def gpus() -> QuerySet[Gpu]:
    return Gpu.objects.all()


def site() -> Site | None:
    """None until a controller has looked for the first time."""
    return Site.objects.filter(id=1).first()


@dataclass(frozen=True, slots=True)
class Room:
    """Whether `share` has room on the cards. `ever`: it would, were they empty. `known` False: nobody has looked yet, all else is empty."""

    known: bool
    fits_now: bool
    ever: bool
    cards: tuple[str, ...] = ()  # UUIDs of cards with room for it now
    largest: GpuShare | None = None  # the same number of cards, cut to the largest room that there is now
    largest_ever: GpuShare | None = None
    evidence: dict[str, Any] = field(default_factory=dict)


def room(share: GpuShare) -> Room:
    """By the mirror, for healthy cards of one machine each."""
    if site() is None:
        return Room(known=False, fits_now=False, ever=True)
    return room_on(share, [gpu for gpu in gpus() if gpu.healthy])


def room_on(share: GpuShare, cards: Iterable[Gpu]) -> Room:
    by_node: dict[str, list[Gpu]] = {}
    for card in cards:
        by_node.setdefault(card.node, []).append(card)
    fitting = [
        found
        for on_node in by_node.values()
        if len(found := [c for c in on_node if _fits(share, *_free(c))]) >= share.count
    ]
    ever = any(sum(_fits(share, c.memory, WHOLE) for c in on_node) >= share.count for on_node in by_node.values())
    now = _largest(share, [[_free(c) for c in on_node] for on_node in by_node.values()])
    return Room(
        known=True,
        fits_now=bool(fitting),
        ever=ever,
        cards=tuple(card.uuid for found in fitting for card in found),
        largest=now,
        largest_ever=_largest(share, [[(c.memory, WHOLE) for c in on_node] for on_node in by_node.values()]),
        evidence=_evidence(share, by_node, now),
    )


def _free(card: Gpu) -> tuple[int, int]:
    """Bytes and ‰ that nobody holds."""
    return card.memory - card.allocated_memory, WHOLE - card.allocated_compute


def _fits(share: GpuShare, memory: int, compute: int) -> bool:
    return share.memory <= memory and share.compute <= compute


def _largest(share: GpuShare, nodes: Iterable[list[tuple[int, int]]]) -> GpuShare | None:
    """`share` cut down to the room of the best machine: as many cards as asked, else as many as one machine has."""
    best: GpuShare | None = None
    for free in nodes:
        for count in range(min(share.count, len(free)), 0, -1):
            roomiest = sorted(free, key=lambda f: (min(f[0], share.memory), min(f[1], share.compute)), reverse=True)[
                :count
            ]
            memory, compute = min(f[0] for f in roomiest), min(f[1] for f in roomiest)
            wanted = GpuShare(count, share.memory, share.compute, share.ceiling)
            cut = cut_share(wanted, max(memory, 0) * count, max(compute, 0) * count)
            if cut is not None and (best is None or _size(cut) > _size(best)):
                best = cut
    return best


def _size(share: GpuShare) -> tuple[int, int, int]:
    return share.count, share.memory, share.compute


def _evidence(share: GpuShare, by_node: dict[str, list[Gpu]], largest: GpuShare | None) -> dict[str, Any]:
    cards = [card for on_node in by_node.values() for card in on_node]
    return {
        "asked_gpus": share.count,
        "memory_bytes": share.memory,
        "compute_permille": share.compute,
        "asked_bytes": share.memory,
        "asked_permille": share.compute,
        "room_bytes": largest.memory if largest else 0,
        "room_permille": largest.compute if largest else 0,
        "largest_bytes": max((card.memory for card in cards), default=0),
        "gpus": len(cards),
        "cards": [
            {
                "uuid": card.uuid,
                "model": card.model,
                "node": card.node,
                "free_bytes": max(_free(card)[0], 0),
                "free_permille": max(_free(card)[1], 0),
                "holders": card.holders,
            }
            for card in cards
        ],
    }
