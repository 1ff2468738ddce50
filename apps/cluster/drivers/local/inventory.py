"""Cards as the portal sees them: what the agent says, with what this driver has promised. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from apps.cluster.drivers.local.records import Record, uid_of_claim
from apps.cluster.specs import Card, Holder, Sample


def cards_of(answer: Mapping[str, Any], node: str) -> tuple[Card, ...]:
    """The agent's `GET /cards`; holders are its claims, under the claims' names."""
    return tuple(
        Card(
            uuid=card["uuid"],
            node=node,
            index=card["index"],
            model=card["model"],
            memory=card["memory"],
            physical_memory=card["physical_memory"],
            healthy=card["healthy"],
            health_reason=card["health_reason"],
            simulated=card["simulated"],
            attributes=card["attributes"],
            holders=tuple(Holder(c["uid"], c["memory"], c["compute"], c["ceiling"]) for c in card["claims"]),
        )
        for card in answer["cards"]
    )


def with_promises(cards: Iterable[Card], records: Iterable[Record]) -> tuple[Card, ...]:
    """Each card with all that hold it: runs by our own records, since a place is promised before there is a claim for it, and the
    agent's other claims, since they take room whoever made them. Holders are named by workload."""
    promised: dict[str, dict[str, Holder]] = {}
    for record in records:
        for grant in record.grants:
            holder = Holder(record.claim, grant.memory, grant.compute, grant.ceiling)
            promised.setdefault(grant.card, {})[record.claim] = holder
    return tuple(_merged(card, promised.get(card.uuid, {})) for card in cards)


def _merged(card: Card, promised: Mapping[str, Holder]) -> Card:
    """The agent's word on memory counts where it is more than ours: of a share that was made smaller while more was in use."""
    holders = {holder.uid: holder for holder in card.holders}
    for name, holder in promised.items():
        known = holders.get(name, holder)
        holders[name] = replace(holder, memory=max(holder.memory, known.memory))
    named = sorted((replace(holder, uid=uid_of_claim(holder.uid)) for holder in holders.values()), key=lambda h: h.uid)
    return replace(card, holders=tuple(named))


def samples_of(batch: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """One line of the agent's stream. `run:` subjects bear the workload's uid instead of the claim's name."""
    return [Sample(**{**fields, "subject": _subject(fields["subject"]), "at": _time(fields["at"])}) for fields in batch]


def _subject(subject: str) -> str:
    kind, _, rest = subject.partition(":")
    if kind != "run":
        return subject
    claim, _, card = rest.partition(":")
    return f"run:{uid_of_claim(claim)}:{card}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
