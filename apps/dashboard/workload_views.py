"""A workload as the pages show it: state in a word, share as bars, what the reader may do. Reads in bulk, whatever the number of rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.cluster import services as drivers
from apps.cluster.models import Gpu
from apps.cluster.specs import Resizing
from apps.core import clock
from apps.core.reasons import Explanation, Severity, explain
from apps.dashboard.bars import ShareBar
from apps.telemetry import selectors as telemetry
from apps.telemetry.models import Sample
from apps.tenants import selectors as tenants
from apps.tenants.models import Role
from apps.workloads import notices
from apps.workloads import selectors as workloads
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.resizing import RUNS

# Phase -> (tone of tessera.css, icon). The word is the phase's own label.
_LOOKS = {
    Phase.DRAFT: ("off", "circle-dashed"),
    Phase.QUEUED: ("waiting", "hourglass"),
    Phase.ADMITTED: ("moving", "loader"),
    Phase.SCHEDULING: ("waiting", "hourglass"),
    Phase.PREPARING: ("moving", "loader"),
    Phase.STARTING: ("moving", "loader"),
    Phase.READY: ("ready", "circle-check"),
    Phase.STOPPING: ("moving", "loader"),
    Phase.STOPPED: ("off", "square"),
    Phase.FAILED: ("failed", "circle-x"),
}


@dataclass(frozen=True, slots=True)
class State:
    key: str
    word: str
    tone: str
    icon: str


@dataclass(frozen=True, slots=True)
class Abilities:
    open: bool = False
    terminal: bool = False
    stop: bool = False
    start: bool = False
    extend: bool = False
    change: bool = False  # rename and delete
    resize: bool = False
    manages: bool = False  # somebody else's: a reason is asked for


@dataclass(frozen=True, slots=True)
class Rights:
    """Where an actor may do what; read once for any number of rows. The services decide again when something is done."""

    actor: Actor
    managed: frozenset[UUID]
    running: frozenset[UUID]
    terminals: bool = False  # the driver can start one more program in what runs
    resizes: bool = False  # the cluster can change the share of what runs

    @classmethod
    def of(cls, actor: Actor) -> "Rights":
        managed = tenants.tenants_where(actor, at_least=Role.MANAGER).order_by().values_list("id", flat=True)
        running = tenants.runs_in(actor).order_by().values_list("id", flat=True)
        site = cluster.site()
        resizes = site is not None and site.resizing != Resizing.NONE
        return cls(actor, frozenset(managed), frozenset(running), drivers.terminals() is not None, resizes)

    def on(self, workload: Workload) -> Abilities:
        mine = workload.owner_id == self.actor.user_id
        member = mine and workload.tenant_id in self.running
        ends = mine or workload.tenant_id in self.managed or self.actor.is_operator
        kept = workload.desired != Desired.DELETED
        wanted = workload.desired == Desired.RUNNING and not workload.has_ended
        enters = kept and workload.phase == Phase.READY and (member or self.actor.is_operator)
        return Abilities(
            open=enters,
            terminal=enters and self.terminals,
            stop=ends and wanted,
            start=kept and workload.has_ended and (member or self.actor.is_operator),
            extend=ends and wanted and workload.time_limit_seconds is not None,
            change=ends and kept,
            resize=ends and kept and self._resizable(workload),
            manages=ends and not mine,
        )

    def _resizable(self, workload: Workload) -> bool:
        """A whole GPU stays whole while it runs."""
        share = workload.share
        if share is None or workload.has_ended:
            return share is not None
        runs = workload.desired == Desired.RUNNING and workload.phase in RUNS
        return self.resizes and runs and not share.exclusive


@dataclass(frozen=True)
class WorkloadView:
    workload: Workload
    may: Abilities
    bars: Sequence[ShareBar] = field(default_factory=tuple)
    need: str = ""

    @cached_property
    def state(self) -> State:
        return state_of(self.workload)

    @cached_property
    def why(self) -> Explanation:
        return workloads.explanation(self.workload)

    @property
    def url(self) -> str:
        return reverse("experiment", args=[self.workload.id])

    @property
    def open_url(self) -> str:
        return f"/open/{self.workload.id}/"


def state_of(workload: Workload) -> State:
    if workloads.is_unknown(workload):
        return State("unknown", _("unknown"), "unknown", "help-circle")
    if workload.desired == Desired.DELETED:
        return State("deleting", _("deleting"), "moving", "trash")
    phase = Phase(workload.phase)
    tone, icon = _LOOKS[phase]
    return State(phase.value, str(phase.label), tone, icon)


def views_of(actor: Actor, rows: Iterable[Workload]) -> list[WorkloadView]:
    """Four queries for rights, cards and newest figures; none per row."""
    found = list(rows)
    rights = Rights.of(actor)
    cards = {gpu.uuid: gpu for gpu in cluster.gpus()}
    subjects = [subject for row in found if row.cards for subject in telemetry.subjects_of(row).runs]
    samples = telemetry.latest(subjects) if subjects else {}
    return [WorkloadView(row, rights.on(row), share_bars(row, cards, samples)) for row in found]


def share_bars(workload: Workload, cards: dict[str, Gpu], samples: dict[str, Sample]) -> list[ShareBar]:
    """One bar for each card that it holds; one without figures where it holds none yet; none without a GPU."""
    share = workload.share
    if share is None:
        return []
    held: list[str] = list(workload.cards) if not workload.has_ended else []
    if not held:
        return [ShareBar(share.compute, share.ceiling, share.memory, 0)]
    return [_bar(workload, cards.get(uuid), samples.get(f"run:{workload.uid}:{uuid}")) for uuid in held]


def _bar(workload: Workload, card: Gpu | None, sample: Sample | None) -> ShareBar:
    figures: dict[str, Any] = {}
    if sample is not None:
        figures = {
            "limit": sample.compute_limit,
            "used": sample.compute_used,
            "memory_used": sample.memory_used,
            "throttled_ms": sample.throttled_ms,
            "at": float(sample.at + 1),  # the sample is the mean of the second from `at`
        }
    return ShareBar(
        guaranteed=workload.gpu_compute,
        ceiling=workload.gpu_ceiling,
        memory=workload.gpu_memory,
        card_memory=card.memory if card else 0,
        card=f"GPU {card.index}: {card.model}" if card else "",
        **figures,
    )


def needing(views: Iterable[WorkloadView]) -> list[WorkloadView]:
    """Those that ask for a decision of their owner: failed, ended without their doing, around their limits, or soon at their time limit."""
    found = []
    shown = list(views)
    told = {notice.workload_id: notice for notice in notices.open_of(view.workload.id for view in shown)}
    for view in shown:
        row = view.workload
        if row.phase == Phase.FAILED or (row.phase == Phase.STOPPED and view.why.severity == Severity.WARNING):
            found.append(WorkloadView(row, view.may, view.bars, view.why.title))
        elif row.id in told:
            found.append(
                WorkloadView(row, view.may, view.bars, explain(told[row.id].code, told[row.id].evidence).title)
            )
        elif row.phase == Phase.READY and row.warn_at is not None and clock.now() >= row.warn_at:
            found.append(WorkloadView(row, view.may, view.bars, _("stops soon, at its time limit")))
    return found
