"""What is asked for a claim, and whether a card has room for it. Pure: touches no file and no driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vcuda.node.errors import Conflict, Invalid
from vcuda.node.layout import COMPUTE_LIMITED, EXCLUSIVE, MAX_DEVICES, MEMORY_LIMITED, DeviceRecord

WHOLE: Final = 1000  # per mille of a card's time
MIB: Final = 1024**2
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A claim's part of one card: bytes, and per mille guaranteed up to a ceiling. Nobody acts on `priority` yet."""

    uuid: str
    memory: int
    compute: int
    ceiling: int
    priority: int = 0

    def __post_init__(self) -> None:
        if self.memory < MIB:
            raise Invalid(f"A claim needs at least 1 MiB on card {self.uuid}, not {self.memory} bytes.")
        if not 1 <= self.compute <= self.ceiling <= WHOLE:
            raise Invalid(
                f"On card {self.uuid}, compute is {self.compute} ‰ and the ceiling {self.ceiling} ‰.",
                hint="Both are 1 to 1000, and the ceiling is not below compute.",
            )

        if not -WHOLE <= self.priority <= WHOLE:
            raise Invalid(f"On card {self.uuid}, the priority is {self.priority}.", hint="Use -1000 to 1000.")

    @property
    def exclusive(self) -> bool:
        return self.compute == WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right of one workload to parts of some cards; `uid` and `gid` are the account that its programs run as.

    `contained`: its programs run in containers, under any account, and nothing but them can reach the claim's folder.
    `group` is the folder of the control group (version 2) in which all of them are, where there is one.
    """

    name: str
    parts: tuple[Part, ...]
    uid: int
    gid: int
    contained: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a claim has of a card now. `used` bytes may lie above a limit that was lowered: nobody else gets these until they are freed."""

    claim: str
    part: Part
    share: int
    used: int = 0

    @property
    def memory(self) -> int:
        """Bytes that cannot be promised to others."""
        return max(self.part.memory, self.used)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name a claim.",
            hint="Use 1 to 100 letters, digits, '-' and '_', beginning with a letter or digit.",
        )
    return name


def parse_claim(name: str, body: object) -> Claim:
    """The body of `PUT /claims/{name}`."""
    fields = _object(body, "the claim")
    parts = tuple(
        Part(
            uuid=_text(device, "uuid"),
            memory=_number(device, "memory"),
            compute=_number(device, "compute"),
            ceiling=_number(device, "ceiling"),
        )
        for device in _devices(fields)
    )
    uid, gid = _number(fields, "uid"), _number(fields, "gid")
    return Claim(name=check_name(name), parts=parts, uid=uid, gid=gid, group=_group(fields))


def parse_change(claim: Claim, body: object) -> Claim:
    """The body of `PATCH`: the claim with some numbers replaced; cards cannot be added or taken."""
    parts = {part.uuid: part for part in claim.parts}
    for device in _devices(_object(body, "the change")):
        uuid = _text(device, "uuid")
        if uuid not in parts:
            raise Invalid(
                f"Claim {claim.name} has no part of card {uuid}.", hint="Make a new claim to change its cards."
            )
        part = parts[uuid]
        parts[uuid] = replace(
            part,
            memory=_number(device, "memory", part.memory),
            compute=_number(device, "compute", part.compute),
            ceiling=_number(device, "ceiling", part.ceiling),
        )
    return replace(claim, parts=tuple(parts.values()))


def check_room(claim: Claim, allocatable: Mapping[str, int], held: Iterable[Held]) -> None:
    """Refuse a claim that its cards cannot keep beside those that they keep already.

    `allocatable` maps a card's UUID to its bytes; `held` may hold the claim's own present parts, which do not count.
    """
    others = [holder for holder in held if holder.claim != claim.name]
    for part in claim.parts:
        if part.uuid not in allocatable:
            raise Invalid(
                f"This machine has no card {part.uuid}.",
                code="no_such_card",
                evidence={"cards": sorted(allocatable)},
            )
        beside = [holder for holder in others if holder.part.uuid == part.uuid]
        memory = allocatable[part.uuid] - sum(holder.memory for holder in beside)
        compute = WHOLE - sum(holder.part.compute for holder in beside)
        if part.memory > memory or part.compute > compute:
            raise Conflict(
                f"Card {part.uuid} has {memory} bytes and {compute} ‰ left; claim {claim.name} asks for "
                f"{part.memory} bytes and {part.compute} ‰.",
                code="no_room",
                hint="Ask for less, choose another card, or wait until a claim ends.",
                evidence={"memory": memory, "compute": compute, "holders": sorted(h.claim for h in beside)},
            )


def new_record(part: Part) -> DeviceRecord:
    """The first record of a part: nothing lent, nobody else seen, charges uncorrected, the library measures contexts."""
    return DeviceRecord(
        uuid=part.uuid,
        flags=_flags(part),
        memory_limit=part.memory,
        guarantee=part.compute,
        ceiling=part.ceiling,
        share=part.compute,
        priority=part.priority,
    )


def changed_record(record: DeviceRecord, part: Part) -> DeviceRecord:
    """The record with the numbers of `part`; the share stays where the new bounds allow it."""
    return replace(
        record,
        flags=_flags(part),
        memory_limit=part.memory,
        guarantee=part.compute,
        ceiling=part.ceiling,
        share=min(max(record.share, part.compute), part.ceiling),
        priority=part.priority,
    )


def part_of(record: DeviceRecord) -> Part:
    """What a record grants. An agent killed in the middle of a change may leave a ceiling that is older than its guarantee."""
    ceiling = max(record.ceiling, record.guarantee)
    return Part(
        uuid=record.uuid,
        memory=record.memory_limit,
        compute=record.guarantee,
        ceiling=ceiling,
        priority=record.priority,
    )


def _flags(part: Part) -> int:
    return MEMORY_LIMITED | (EXCLUSIVE if part.exclusive else COMPUTE_LIMITED)


def _devices(fields: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    devices = fields.get("devices")
    if not isinstance(devices, list) or not 1 <= len(devices) <= MAX_DEVICES:
        raise Invalid(f"'devices' is a list of 1 to {MAX_DEVICES} cards.")
    named = [_object(device, "a device") for device in devices]
    if len({_text(device, "uuid") for device in named}) < len(named):
        raise Invalid("'devices' names a card twice.", hint="Put the whole part of a card into one entry.")
    return named


def _object(body: object, what: str) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Invalid(f"The body must be a JSON object that describes {what}.")
    return body


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.isascii() or not 1 <= len(value) < 48:
        raise Invalid(f"'{key}' is a text of 1 to 47 ASCII characters, not {value!r}.")
    return value


def _group(fields: Mapping[str, Any]) -> str:
    value = fields.get("group", "")
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise Invalid(f"'group' is the full path of a control group's folder, not {value!r}.")
    return value


def _number(fields: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise Invalid(f"'{key}' is a whole number, not {value!r}.")
    return value
