"""The catalogue of reasons: every wait, slow start and end has one stable code, one sentence with evidence, and one next action.

Codes are stored in rows and sent by the API; texts are written when they are shown, in the reader's language. Evidence holds raw
numbers with their unit in the name (`room_bytes`, `room_permille`); where it names a `dimension` of the quota, `asked`, `used`,
`limit` and `free` are amounts of that dimension.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from apps.core import units


class Severity(StrEnum):
    INFO = "info"  # a step on the way, or an end that was wanted
    WAITING = "waiting"  # nobody need do anything but wait
    WARNING = "warning"  # an end that nobody here wanted but that is in order
    ERROR = "error"  # something went wrong, or can never work


@dataclass(frozen=True, slots=True)
class Reason:
    """Title, text and action are lazy translations; `{name}` in them is filled from the evidence."""

    code: str
    severity: Severity
    title: Any
    text: Any
    action: Any = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    code: str
    severity: Severity
    title: str
    text: str
    action: str


class _Evidence(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "—"


_AMOUNTS = ("asked", "used", "limit", "free")


def _shown(evidence: Mapping[str, Any]) -> _Evidence:
    shown = _Evidence({key: units.format_evidence(key, value) for key, value in evidence.items()})
    dimension = units.DIMENSIONS.get(str(evidence.get("dimension", "")))
    if dimension is not None:
        shown["dimension"] = str(dimension.label)
        shown.update({k: dimension.format(evidence[k]) for k in _AMOUNTS if isinstance(evidence.get(k), int)})
    return shown


def explain(code: str, evidence: Mapping[str, Any] | None = None) -> Explanation:
    """The reason in words, in the current language. An unknown code is shown as it is, never hidden."""
    from apps.core.reason_texts import CATALOGUE, UNKNOWN

    facts = {"code": code, **(evidence or {})}
    variant = "many" if facts.get("asked_gpus", 1) != 1 else facts.get("dimension")
    reason = CATALOGUE.get(f"{code}:{variant}") or CATALOGUE.get(code, UNKNOWN)
    shown = _shown(facts)
    return Explanation(
        code=code,
        severity=reason.severity,
        title=str(reason.title).format_map(shown),
        text=str(reason.text).format_map(shown),
        action=str(reason.action).format_map(shown),
    )
