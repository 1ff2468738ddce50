"""The rate limits that the control plane's own programs work under, which decide how many pods start in a second: the scheduler places
those with claims, the controller-manager binds the volumes of those that start for the first time.

Nobody tells them: `/configz` of these programs wants credentials of its own, and the API server's proxy passes none on. So the command
line is read where the programs are pods, and otherwise it is measured what they did in the busiest ten seconds (`pace.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.cluster.diagnosis import Area, Finding, Level
from apps.cluster.drivers.kubernetes.diagnosis.looking import REJECTED, SEATS, Hidden, Sample, Seen, rows
from apps.cluster.drivers.kubernetes.diagnosis.pace import WINDOW, Pace, pods_placed, short, volumes_bound
from apps.cluster.drivers.kubernetes.objects import Manifest, labels, spec

_MARGIN = 1.25  # so much above what a stock limit can give is proof that it was raised
_LONG = 5.0  # s that half of them waited
_STEADY = 0.75  # of the rate at which a stock limit is refilled
_FEW_NODES = 100  # the scheduler looks at all of so few


@dataclass(frozen=True, slots=True)
class Program:
    """`calls` of the API for each pod with a claim or new volume, and what is `wanted`: measured, docs/operations/kubernetes.md."""

    name: str
    code: str  # first part of the findings' codes
    calls: int
    stock: tuple[int, int]  # queries a second, and at once, unless set otherwise
    wanted: tuple[int, int]
    command: str  # to look by hand

    @property
    def stock_rate(self) -> float:
        """Pods or volumes a second that the stock limit can give in a window: its burst and what is refilled."""
        qps, burst = self.stock
        return (burst + qps * WINDOW) / self.calls / WINDOW


SCHEDULER = Program(
    "kube-scheduler",
    "scheduler_limit",
    4,
    (50, 100),
    (200, 400),
    'curl -sk -H "Authorization: Bearer $TOKEN" https://127.0.0.1:10259/configz',
)
CONTROLLER_MANAGER = Program(
    "kube-controller-manager",
    "volumes_limit",
    4,
    (20, 30),
    (100, 200),
    'curl -sk -H "Authorization: Bearer $TOKEN" https://127.0.0.1:10257/configz',
)


def judged(seen: Seen) -> list[Finding]:
    return [
        _program(SCHEDULER, seen, pods_placed(seen)),
        _program(CONTROLLER_MANAGER, seen, volumes_bound(seen)),
        *_scoring(seen),
        *_priority(seen),
    ]


def _program(program: Program, seen: Seen, paces: Sequence[Pace]) -> Finding:
    told = told_limit(program, rows(seen.control))
    if told is not None:
        return _of_limit(program, *told)
    evidence = {"program": program.name, "stock_per_second": short(program.stock_rate)}
    best = max(paces, key=lambda pace: pace.count, default=None)
    if best is not None and best.rate > program.stock_rate * _MARGIN:
        return Finding(Area.LIMITS, f"{program.code}_seen", Level.GOOD, evidence | best.evidence)
    # As fast as a stock limit lets it go on, and slower than it was wanted: what waits for room comes in no such stream.
    steady = program.stock[0] / program.calls * _STEADY
    slow = [pace for pace in paces if pace.rate >= steady and pace.waited >= _LONG]
    if slow:
        worst = max(slow, key=lambda pace: pace.waited)
        return Finding(Area.LIMITS, f"{program.code}_felt", Level.ATTENTION, evidence | worst.evidence, program.command)
    return Finding(Area.LIMITS, f"{program.code}_unknown", Level.UNKNOWN, evidence, program.command)


# --- Told by the command line ----------------------------------------------------------------------------------------------
def told_limit(program: Program, pods: Iterable[Manifest]) -> tuple[float, float] | None:
    """Of several that take turns the lowest. None where there is none, or the limit stands in a file."""
    lines = [_flags(pod) for pod in pods if labels(pod).get("component") == program.name]
    if not lines or any("config" in flags for flags in lines):  # with a file the scheduler ignores its flags
        return None
    try:
        limits = [
            (float(f.get("kube-api-qps", program.stock[0])), float(f.get("kube-api-burst", program.stock[1])))
            for f in lines
        ]
    except ValueError:
        return None
    return min(limits, key=lambda limit: limit[0] if limit[0] >= 0 else float("inf"))


def _flags(pod: Manifest) -> dict[str, str]:
    found: dict[str, str] = {}
    for container in spec(pod).get("containers") or ():
        words = iter([*(container.get("command") or ()), *(container.get("args") or ())])
        for word in words:
            if word.startswith("-"):
                name, has_value, value = word.lstrip("-").partition("=")
                found[name] = value if has_value else next(words, "")
    return found


def _of_limit(program: Program, qps: float, burst: float) -> Finding:
    evidence = {
        "program": program.name,
        "queries_per_second": round(qps),
        "burst": round(burst),
        "starts_per_second": round(qps / program.calls),
        "wanted": program.wanted[0],
        "wanted_burst": program.wanted[1],
    }
    if qps < 0:  # no limit
        return Finding(Area.LIMITS, f"{program.code}_none", Level.GOOD, evidence)
    enough = qps >= program.wanted[0] and burst >= program.wanted[1]
    return Finding(
        Area.LIMITS,
        f"{program.code}_{'enough' if enough else 'low'}",
        Level.GOOD if enough else Level.ATTENTION,
        evidence,
    )


# --- What else slows down -------------------------------------------------------------------------------------------------
def _scoring(seen: Seen) -> list[Finding]:
    if isinstance(seen.nodes, Hidden):
        return []  # said with the nodes
    evidence = {"nodes": len(seen.nodes), "few": _FEW_NODES}
    if len(seen.nodes) <= _FEW_NODES:
        return [Finding(Area.LIMITS, "scoring_needs_nothing", Level.GOOD, evidence)]
    return [Finding(Area.LIMITS, "scoring_unknown", Level.UNKNOWN, evidence, SCHEDULER.command)]


def _priority(seen: Seen) -> list[Finding]:
    """API priority and fairness: the queue of our requests, and whether somebody in it was turned away."""
    command = "kubectl get --raw /metrics | grep apiserver_flowcontrol"
    hidden = next((one for one in (seen.flow, seen.metrics) if isinstance(one, Hidden)), None)
    if hidden is not None or isinstance(seen.flow, Hidden):
        problem = hidden.problem if hidden is not None else ""
        return [Finding(Area.LIMITS, "priority_unknown", Level.UNKNOWN, {"problem": problem}, command)]
    if seen.flow.level == "exempt":  # an administrator's requests never wait
        return [Finding(Area.LIMITS, "priority_exempt", Level.GOOD, {"flow_schema": seen.flow.schema})]
    seats = _sum(rows(seen.metrics), SEATS, priority_level=seen.flow.level)
    rejected = _sum(rows(seen.metrics), REJECTED, flow_schema=seen.flow.schema)
    evidence: dict[str, Any] = {"flow_schema": seen.flow.schema, "priority_level": seen.flow.level}
    evidence |= {"seats": round(seats), "rejected": round(rejected)}
    if rejected:
        return [Finding(Area.LIMITS, "priority_refuses", Level.ATTENTION, evidence, command)]
    return [Finding(Area.LIMITS, "priority_serves", Level.GOOD, evidence)]


def _sum(samples: Sequence[Sample], name: str, **wanted: str) -> float:
    return sum(one.value for one in samples if one.name == name and wanted.items() <= dict(one.labels).items())
