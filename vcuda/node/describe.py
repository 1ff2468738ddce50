"""The agent's state as JSON. Reading only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vcuda.node.control import CardState
from vcuda.node.kept import Kept, KeptPart
from vcuda.node.node import Node


def cards(node: Node, at: datetime) -> dict[str, Any]:
    notes = [f"Claim {name} cannot be used: {claim.why}" for name, claim in node.unreadable.items()]
    return {
        "observed_at": at.isoformat(),
        "cards": [_card(node, card) for card in sorted(node.cards.values(), key=lambda card: card.facts.index)],
        "notes": notes if node.cards else ["no_driver", *notes],
    }


def claim(kept: Kept) -> dict[str, Any]:
    """One claim, its account and its parts with the books of each."""
    return {
        "uid": kept.claim.uid,
        "gid": kept.claim.gid,
        "name": kept.claim.name,
        "backend": kept.backend.name,
        "devices": [_part(kept, part) for part in kept.parts.values()],
        "processes": [
            {"pid": slot.pid, "started_ns": slot.started_ns}
            for slot in (kept.now.slots if kept.now else ())
            if slot.alive
        ],
    }


def _card(node: Node, card: CardState) -> dict[str, Any]:
    facts = card.facts
    return {
        "uuid": facts.uuid,
        "index": facts.index,
        "model": facts.model,
        "memory": facts.allocatable,
        "physical_memory": facts.physical_memory,
        "simulated": node.simulated,
        "healthy": not card.illness,
        "health_reason": card.illness,
        "attributes": dict(facts.attributes),
        "claims": [
            {
                "uid": held.claim,
                "memory": held.memory,
                "compute": held.part.compute,
                "ceiling": held.part.ceiling,
                "share": held.share,
            }
            for held in node.held()
            if held.part.uuid == facts.uuid
        ],
    }


def _part(kept: Kept, part: KeptPart) -> dict[str, Any]:
    record = part.record
    described = {
        "uuid": record.uuid,
        "memory": record.memory_limit,
        "compute": record.guarantee,
        "ceiling": record.ceiling,
        "share": record.share,
        "multiplier": round(part.m, 4),
        "others": record.others,
        "observed_bytes": part.observed_bytes,
        "uncounted_bytes": part.uncounted_bytes,
    }
    if kept.now is None:
        return described
    page = kept.now.pages[part.index]
    books = {
        "memory_used": page.held_bytes,
        "memory_peak": page.device.peak_bytes,
        "denied_bytes": page.device.denied_bytes,
        "denied_count": page.device.denied_count,
        "charged_ns": page.device.charged_ns,
        "borrowed_ns": page.device.borrowed_ns,
        "throttled_ns": page.device.throttled_ns,
        "launches": page.device.launches,
        "waiting": page.waiting,
    }
    return described | {"books": books}
