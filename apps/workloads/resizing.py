"""Another share for a workload that runs, or for the next run of one that has ended. One write path for pages, REST and scripts.

While it runs, three have a word: the quota, in the transaction of the change; the cards, by the mirror now and by the cluster in the
end; and the cluster's own way to cut cards. The row says what is wanted, `resize_from` what is in force until the controller has seen
it done (`reconcile`); the claim on the quota is the larger of both meanwhile. Nothing that a program holds is ever taken away.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.cluster.models import Gpu
from apps.cluster.specs import Resizing
from apps.core.errors import Conflict, InvalidInput
from apps.core.reasons import explain
from apps.core.share import MIB, WHOLE, GpuShare
from apps.quotas import ledger
from apps.quotas import services as quotas
from apps.quotas.admission import Decision, Kind
from apps.quotas.models import Claim
from apps.telemetry import selectors as telemetry
from apps.workloads import notices, policies
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.queue import waiting_for
from apps.workloads.services import locked, want
from apps.workloads.site import site_refusal

RUNS = (Phase.STARTING, Phase.READY)  # has its cards, and is not on its way out


@dataclass(frozen=True, slots=True)
class Change:
    """None: as it is. Bytes and per mille on each card."""

    memory: int | None = None
    compute: int | None = None
    ceiling: int | None = None

    def of(self, share: GpuShare) -> GpuShare:
        """Raises InvalidInput, by field, for what is no share at all. A ceiling that was not named rises with the guarantee."""
        memory = share.memory if self.memory is None else self.memory
        compute = share.compute if self.compute is None else self.compute
        ceiling = max(share.ceiling, compute) if self.ceiling is None else self.ceiling
        fields = {}
        if memory < MIB:
            fields["memory_bytes"] = _("At least 1 MiB.")
        if not 1 <= compute <= WHOLE:
            fields["compute_permille"] = _("From 1 to 1000 ‰.")
        if not compute <= ceiling <= WHOLE:
            fields["ceiling_permille"] = _("From the guarantee to 1000 ‰.")
        if fields:
            raise InvalidInput(_("This is no share of a GPU."), fields=fields)
        return GpuShare(share.count, memory, compute, ceiling)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`used` bytes are in use on the fullest card now (None: not known), `over` of them above the new limit. `nearest` would be allowed."""

    allowed: bool
    reason: str
    evidence: dict[str, Any]
    before: GpuShare
    after: GpuShare
    used: int | None = None
    nearest: GpuShare | None = None

    @property
    def over(self) -> int:
        return max((self.used or 0) - self.after.memory, 0)


def preview(*, actor: Actor, workload: Workload, change: Change) -> Verdict:
    """Whether `resize` would be allowed now. Changes nothing."""
    policies.may_end(actor, workload)
    return _judged(workload, change, ledger.path_of(workload.tenant_id))


@transaction.atomic
def resize(*, actor: Actor, workload: Workload, change: Change) -> Workload:
    """Raises Conflict with the numbers where quota or cards have no room, and for what cannot change while it runs."""
    path = ledger.lock_path(workload.tenant_id)
    row = locked(workload)
    policies.may_end(actor, row)
    verdict = _judged(row, change, path)
    if verdict.before == verdict.after:
        return row
    if not verdict.allowed:
        raise _refusal(row, verdict)
    resources = replace(row.resources, gpu=verdict.after)
    in_force = None
    if not row.has_ended:
        claim = _claim(row)
        assert claim is not None, "what runs holds a claim; `_judged` has seen it under this lock"
        quotas.exchange(path=path, claim=claim, resources=resources, waiting=waiting_for(row))
        in_force = row.resize_from or asdict(verdict.before)
        notices.end(row, notices.RESIZE_REFUSED)
    after = verdict.after
    want(row, gpu_memory=after.memory, gpu_compute=after.compute, gpu_ceiling=after.ceiling, resize_from=in_force)
    audit.record(
        actor=actor,
        verb=f"{row.kind}.resize",
        target=row,
        tenant=row.tenant_id,
        before=asdict(verdict.before),
        after=asdict(after),
    )
    return row


def _judged(row: Workload, change: Change, path: ledger.Path) -> Verdict:
    before = row.share
    if before is None:
        raise Conflict(explain("resize_no_gpu").text, code="resize_no_gpu")
    after = change.of(before)
    decision = _allowed(row, before, after, path)
    nearest = decision.nearest.gpu if decision.nearest else None
    return Verdict(
        allowed=decision.kind is Kind.ADMIT,
        reason=decision.reason,
        evidence=decision.evidence,
        before=before,
        after=after,
        used=_used(row),
        nearest=nearest if nearest and nearest.count == after.count and nearest != after else None,
    )


def _allowed(row: Workload, before: GpuShare, after: GpuShare, path: ledger.Path) -> Decision:
    resources = replace(row.resources, gpu=after)
    if row.has_ended:
        return site_refusal(resources) or Decision(Kind.ADMIT, "resize_next_run", {})
    claim = _claim(row)
    if row.desired != Desired.RUNNING or row.phase not in RUNS or claim is None:
        return Decision(Kind.REFUSE, "resize_not_running", {})
    if before.exclusive or after.exclusive:
        return Decision(Kind.REFUSE, "resize_whole", {})
    by_cards = _by_cards(row, before, after)
    if by_cards is not None:
        return by_cards
    return quotas.preview_exchange(path=path, claim=claim, resources=resources, waiting=waiting_for(row))


def _claim(row: Workload) -> Claim | None:
    return ledger.held().filter(workload_id=row.id, run=row.run).first()


def _by_cards(row: Workload, before: GpuShare, after: GpuShare) -> Decision | None:
    """The refusal of the cards, by the mirror: the cluster itself is asked later, and has the last word."""
    site = cluster.site()
    cards = list(cluster.gpus().filter(uuid__in=row.cards))
    if site is None or len(cards) < len(row.cards):
        return None  # unknown refuses nothing
    if site.resizing == Resizing.NONE:
        return Decision(Kind.REFUSE, "resize_not_offered", {})
    if site.resizing == Resizing.WITHIN:
        memory, compute = _kept(row, cards, before)
        within = after.memory <= memory and after.compute == compute
        room, reason = GpuShare(after.count, memory, compute, max(after.ceiling, compute)), "resize_claim"
    else:
        memory, compute = _room(row, cards)
        within = after.memory <= max(memory, before.memory) and after.compute <= max(compute, before.compute)
        each = (max(min(after.memory, memory), before.memory), max(min(after.compute, compute), before.compute))
        room, reason = GpuShare(after.count, *each, max(after.ceiling, each[1])), "resize_card"
    if within:
        return None
    evidence = {
        **{"asked_bytes": after.memory, "asked_permille": after.compute},
        **{"room_bytes": max(memory, 0), "room_permille": max(compute, 0)},
    }
    room = replace(room, memory=min(room.memory, after.memory))
    return Decision(Kind.REFUSE, reason, evidence, replace(row.resources, gpu=room))


def _room(row: Workload, cards: Sequence[Gpu]) -> tuple[int, int]:
    """What every one of its cards could give it: all that nobody else holds."""
    memory = [card.memory - sum(h["memory"] for h in _others(row, card)) for card in cards]
    compute = [WHOLE - sum(h["compute"] for h in _others(row, card)) for card in cards]
    return min(memory, default=0), min(compute, default=0)


def _others(row: Workload, card: Gpu) -> list[dict[str, Any]]:
    return [holder for holder in card.holders if holder["uid"] != row.uid]


def _kept(row: Workload, cards: Sequence[Gpu], before: GpuShare) -> tuple[int, int]:
    """What the cluster keeps for it on each card, whatever it may use of that now."""
    own = [holder for card in cards for holder in card.holders if holder["uid"] == row.uid]
    memory = min((holder["memory"] for holder in own), default=before.memory)
    return memory, min((holder["compute"] for holder in own), default=before.compute)


def _used(row: Workload) -> int | None:
    if row.has_ended or not row.cards:
        return None
    samples = telemetry.latest(telemetry.subjects_of(row).runs).values()
    return max((sample.memory_used for sample in samples if sample.memory_used is not None), default=None)


def _refusal(row: Workload, verdict: Verdict) -> Conflict:
    why = explain(verdict.reason, verdict.evidence)
    nearest = asdict(replace(row.resources, gpu=verdict.nearest)) if verdict.nearest else None
    evidence = {**verdict.evidence, "reason": verdict.reason, "nearest": nearest}
    return Conflict(why.text, code=verdict.reason, hint=why.action, evidence=evidence)
