"""The words of a look at the cluster itself: what was found, whether it suffices, what to do. Plain data, no Django, no driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    GOOD = "good"  # was seen, and suffices
    ATTENTION = "attention"  # was seen; something is slower or less than it could be
    BAD = "bad"  # was seen; something cannot work
    UNKNOWN = "unknown"  # could not be seen from here: never to be read as good


class Area(StrEnum):
    SERVER = "server"
    WATCHES = "watches"
    RIGHTS = "rights"
    CARDS = "cards"
    LIMITS = "limits"
    AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is one of the catalogue in `core.reasons`, filled from the evidence; `command` is what to run by hand, to check or to mend."""

    area: Area
    code: str
    level: Level
    evidence: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    driver: str
    observed_at: datetime
    findings: Sequence[Finding]

    def count(self, level: Level) -> int:
        return sum(one.level is level for one in self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """What the controller's started driver last told of itself."""

    told_at: datetime
    content: Mapping[str, Any]
