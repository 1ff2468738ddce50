"""What a look at the cluster has found, in words, in the order of its parts; what needs the operator is named first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.cluster.diagnosis import Area, Diagnosis, Finding, Level
from apps.core.reasons import Explanation, explain

_AREAS = {
    Area.SERVER: _("API server"),
    Area.WATCHES: _("The controller's watches"),
    Area.RIGHTS: _("Rights of Tessera's account"),
    Area.CARDS: _("Giving out GPUs"),
    Area.LIMITS: _("Settings of the control plane"),
    Area.AGENTS: _("Nodes and node agents"),
}
# Word, tone of tessera.css, icon.
_LOOKS = {
    Level.GOOD: (_("good"), "ready", "circle-check"),
    Level.ATTENTION: (_("could be better"), "waiting", "alert-triangle"),
    Level.BAD: (_("does not work"), "failed", "circle-x"),
    Level.UNKNOWN: (_("unknown"), "unknown", "help-circle"),
}
_WORST_FIRST = (Level.BAD, Level.ATTENTION, Level.UNKNOWN, Level.GOOD)


@dataclass(frozen=True, slots=True)
class Look:
    word: Any  # lazy translation
    tone: str
    icon: str


@dataclass(frozen=True, slots=True)
class Line:
    finding: Finding
    told: Explanation
    look: Look
    anchor: str


@dataclass(frozen=True, slots=True)
class Part:
    area: Area
    title: Any  # lazy translation
    lines: Sequence[Line]

    @property
    def counts(self) -> Sequence[tuple[Look, int]]:
        """Worst first."""
        levels = [line.finding.level for line in self.lines]
        return [(Look(*_LOOKS[level]), levels.count(level)) for level in _WORST_FIRST if level in levels]

    @property
    def is_good(self) -> bool:
        return all(line.finding.level is Level.GOOD for line in self.lines)


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    observed_at: datetime
    parts: Sequence[Part]
    wanting: Sequence[Line]  # what does not work, then what could be better
    unknown: int

    @property
    def is_broken(self) -> bool:
        return any(line.finding.level is Level.BAD for line in self.wanting)


def view_of(diagnosis: Diagnosis) -> DiagnosisView:
    lines = [_line(number, finding) for number, finding in enumerate(diagnosis.findings)]
    by_area = {area: [line for line in lines if line.finding.area is area] for area in Area}
    wanting = [line for level in (Level.BAD, Level.ATTENTION) for line in lines if line.finding.level is level]
    return DiagnosisView(
        observed_at=diagnosis.observed_at,
        parts=[Part(area, _AREAS[area], found) for area, found in by_area.items() if found],
        wanting=wanting,
        unknown=diagnosis.count(Level.UNKNOWN),
    )


def _line(number: int, finding: Finding) -> Line:
    look = Look(*_LOOKS[finding.level])
    return Line(finding, explain(finding.code, finding.evidence), look, f"found-{number}")
