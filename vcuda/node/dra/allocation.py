"""What the scheduler has allocated to a ResourceClaim, as a claim of this machine. Pure: dicts in, dataclasses out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vcuda.node.claims import MIB, WHOLE, Claim, Part
from vcuda.node.dra.quantity import parse_quantity
from vcuda.node.errors import Conflict, Invalid
from vcuda.node.nvml import CardFacts

DRIVER: Final = "gpu.tessera.dev"
API_VERSION: Final = "tessera.dev/v1"
KIND: Final = "ShareConfig"
MEMORY, COMPUTE = "memory", "compute"
LIMITS: Final = "tessera.dev/limits"  # annotation of a claim: JSON, how much of each card may be used now


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """One result of an allocation: a share of a device, and for which requests of the claim."""

    requests: tuple[str, ...]
    pool: str
    device: str
    share_id: str | None
    card: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """`pods` are the uids of those that may use the claim at this moment."""

    claim: Claim
    granted: Sequence[Granted]
    pods: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the claim's (or its class's) opaque parameters say about one request."""

    ceiling: int = WHOLE
    priority: int = 0


def device_name(card: CardFacts) -> str:
    return f"gpu-{card.index}"


def read_allocation(
    found: Mapping[str, Any], *, uid: str, pool: str, cards: Iterable[CardFacts], account: tuple[int, int]
) -> Allocation:
    """`found` is the ResourceClaim. Raises Conflict when it is another one or has nothing for us, Invalid for what we do not understand."""
    metadata = found.get("metadata") or {}
    if metadata.get("uid") != uid:
        raise Conflict(
            f"ResourceClaim {metadata.get('namespace')}/{metadata.get('name')} is another one: its uid is "
            f"{metadata.get('uid')}, not {uid}.",
            code="claim_replaced",
        )
    devices = (((found.get("status") or {}).get("allocation") or {}).get("devices")) or {}
    results = [result for result in devices.get("results") or [] if result.get("driver") == DRIVER]
    if not results:
        raise Conflict(f"ResourceClaim {uid} has nothing allocated from {DRIVER}.", code="not_allocated")
    by_name = {device_name(card): card for card in cards}
    configs = devices.get("config") or []
    parts: dict[str, Part] = {}
    granted = []
    for result in results:
        card = _card(result, pool, by_name)
        part = _part(result, card, _wish(configs, str(result.get("request", ""))))
        parts[card.uuid] = _together(parts[card.uuid], part) if card.uuid in parts else part
        granted.append(
            Granted(
                requests=(str(result.get("request", "")),),
                pool=pool,
                device=device_name(card),
                share_id=result.get("shareID"),
                card=card.uuid,
            )
        )
    owner, group = account
    limits = _limits((metadata.get("annotations") or {}).get(LIMITS))
    claim = Claim(
        name=uid, parts=tuple(_limited(part, limits) for part in parts.values()), uid=owner, gid=group, contained=True
    )
    users = (found.get("status") or {}).get("reservedFor") or []
    pods = frozenset(str(user.get("uid")) for user in users if user.get("resource") == "pods")
    return Allocation(claim=claim, granted=granted, pods=pods)


def _card(result: Mapping[str, Any], pool: str, by_name: Mapping[str, CardFacts]) -> CardFacts:
    if result.get("pool") != pool:
        raise Conflict(f"The claim has a device of {result.get('pool')}, not of {pool}.", code="other_node")
    if result.get("device") not in by_name:
        raise Conflict(
            f"Device {result.get('device')} is not one of this node ({pool}).",
            code="no_such_card",
            evidence={"devices": sorted(by_name)},
        )
    if result.get("adminAccess"):
        raise Invalid("Administrative access to cards that others use is not offered.", code="no_admin_access")
    return by_name[result["device"]]


def _part(result: Mapping[str, Any], card: CardFacts, wish: _Wish) -> Part:
    """A result without capacities has the whole card."""
    consumed = {
        name.removeprefix(f"{DRIVER}/"): value for name, value in (result.get("consumedCapacity") or {}).items()
    }
    memory = parse_quantity(consumed[MEMORY]) if MEMORY in consumed else card.allocatable
    compute = parse_quantity(consumed[COMPUTE]) if COMPUTE in consumed else WHOLE
    return Part(
        uuid=card.uuid, memory=memory, compute=compute, ceiling=max(wish.ceiling, compute), priority=wish.priority
    )


def _together(first: Part, second: Part) -> Part:
    """Two shares of one card in one claim are one larger share: its programs have one ledger."""
    compute = first.compute + second.compute
    return Part(
        uuid=first.uuid,
        memory=first.memory + second.memory,
        compute=compute,
        ceiling=max(first.ceiling, second.ceiling, compute),
        priority=max(first.priority, second.priority),
    )


def _limits(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Invalid(f"The annotation {LIMITS} is not a JSON object.")
    return found


def _limited(part: Part, limits: Mapping[str, Any]) -> Part:
    """What may be used of what was allocated, never more. The guarantee is the scheduler's: others were placed beside it."""
    memory = _number(limits, MEMORY, part.memory, MIB, part.memory, LIMITS)
    return replace(part, memory=memory, ceiling=_number(limits, "ceiling", part.ceiling, part.compute, WHOLE, LIMITS))


def _wish(configs: Sequence[Mapping[str, Any]], request: str) -> _Wish:
    """Later entries override earlier ones; those of the class come first."""
    wish = _Wish()
    for entry in configs:
        opaque = entry.get("opaque") or {}
        names = entry.get("requests") or [request]
        if opaque.get("driver") == DRIVER and {request, request.split("/")[0]} & set(names):
            wish = _parameters(opaque.get("parameters"), wish)
    return wish


def _parameters(found: object, before: _Wish) -> _Wish:
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (API_VERSION, KIND):
        raise Invalid(
            f"The claim's parameters for {DRIVER} are not understood.",
            hint=f"Give an object of apiVersion {API_VERSION} and kind {KIND}.",
        )
    unknown = sorted(found.keys() - {"apiVersion", "kind", "ceiling", "priority"})
    if unknown:
        raise Invalid(f"{KIND} has no field {', '.join(unknown)}.", hint="It has ceiling and priority.")
    return _Wish(
        ceiling=_number(found, "ceiling", before.ceiling, 1, WHOLE),
        priority=_number(found, "priority", before.priority, -WHOLE, WHOLE),
    )


def _number(found: Mapping[str, Any], key: str, default: int, lowest: int, highest: int, where: str = KIND) -> int:
    value = found.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise Invalid(f"{where}.{key} is a whole number from {lowest} to {highest}, not {value!r}.")
    return value
