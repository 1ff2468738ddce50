"""GPUs as the pages show them: who holds what, allocated and used side by side. Everybody sees load; names only by right."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.cluster.models import Gpu
from apps.core.share import WHOLE
from apps.dashboard.bars import CardBars, Segment, lay_out
from apps.telemetry import selectors as telemetry
from apps.telemetry.models import Sample
from apps.workloads import selectors as workloads
from apps.workloads.models import Workload


@dataclass(frozen=True, slots=True)
class HolderView:
    label: str
    owner: str
    link: str
    mine: bool
    compute: int
    ceiling: int
    memory: int
    compute_used: int | None
    memory_used: int | None
    uncounted: int | None


@dataclass(frozen=True, slots=True)
class CardView:
    gpu: Gpu
    holders: Sequence[HolderView]
    bars: CardBars
    sample: Sample | None

    @property
    def free_compute(self) -> int:
        return max(WHOLE - self.gpu.allocated_compute, 0)

    @property
    def free_memory(self) -> int:
        return max(self.gpu.memory - self.gpu.allocated_memory, 0)

    @property
    def compute_used(self) -> int | None:
        return self.sample.compute_used if self.sample else None

    @property
    def memory_used(self) -> int | None:
        return self.sample.memory_used if self.sample else None

    @property
    def at(self) -> float | None:
        return float(self.sample.at + 1) if self.sample else None


def cards_for(actor: Actor, uuids: Sequence[str] | None = None) -> list[CardView]:
    """These cards, in this order; without `uuids` all. Five queries, whatever their number."""
    if uuids is None:
        gpus = list(cluster.gpus())
    else:
        found = cluster.gpus().in_bulk(list(uuids))
        gpus = [found[uuid] for uuid in uuids if uuid in found]
    uids = {holder["uid"] for gpu in gpus for holder in gpu.holders}
    rows = {str(row.id): row for row in workloads.visible_to(actor).filter(id__in=_uuids(uids))}
    subjects = [f"card:{gpu.uuid}" for gpu in gpus]
    subjects += [f"run:{holder['uid']}:{gpu.uuid}" for gpu in gpus for holder in gpu.holders]
    samples = telemetry.latest(subjects)
    return [_card(gpu, rows, samples, actor) for gpu in gpus]


def _uuids(uids: set[str]) -> list[str]:
    """A driver may know runs that are none of ours; their names need not be ids."""
    return [uid for uid in uids if len(uid) == 36]


def _card(gpu: Gpu, rows: dict[str, Workload], samples: dict[str, Sample], actor: Actor) -> CardView:
    holders = [
        _holder(holder, rows.get(holder["uid"]), samples.get(f"run:{holder['uid']}:{gpu.uuid}"), actor)
        for holder in gpu.holders
    ]
    compute = [Segment(h.compute, h.compute_used, h.mine, h.label, h.link) for h in holders]
    memory = [Segment(h.memory, h.memory_used, h.mine, h.label, h.link) for h in holders]
    bars = CardBars(lay_out(compute, WHOLE), lay_out(memory, gpu.memory))
    return CardView(gpu, holders, bars, samples.get(f"card:{gpu.uuid}"))


def _holder(holder: dict[str, int], row: Workload | None, sample: Sample | None, actor: Actor) -> HolderView:
    return HolderView(
        label=row.name if row else _("somebody else"),
        owner=str(row.owner) if row else "",
        link=reverse("experiment", args=[row.id]) if row else "",
        mine=row is not None and row.owner_id == actor.user_id,
        compute=holder["compute"],
        ceiling=holder["ceiling"],
        memory=holder["memory"],
        compute_used=sample.compute_used if sample else None,
        memory_used=sample.memory_used if sample else None,
        uncounted=sample.uncounted_bytes if sample else None,
    )
