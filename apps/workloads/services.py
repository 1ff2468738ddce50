"""Writes what is wanted. What is, is written by `reconcile` alone."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.catalog.models import Environment
from apps.core import bells, clock
from apps.core.errors import Conflict, InvalidInput, NeverFits, NotFound, PortalError, QuotaExceeded
from apps.core.reasons import explain
from apps.core.share import Resources
from apps.core.slugs import slug_for
from apps.quotas import ledger
from apps.quotas.admission import Decision, Kind
from apps.tenants import policies as tenant_policies
from apps.tenants.models import Tenant, TenantKind
from apps.workloads import policies
from apps.workloads.models import Desired, Phase, Workload
from apps.workloads.moves import begin, move, ring
from apps.workloads.queue import decide
from apps.workloads.site import site_refusal
from apps.workloads.states import Event

MAX_NAME = 200
MIN_TIME_LIMIT = 60  # seconds
MAX_TIME_LIMIT = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A workload that somebody asks for. `key` is of one form: the same again is the same wish."""

    actor: Actor
    tenant: Tenant
    kind: str
    name: str
    environment: Environment
    resources: Resources
    time_limit_seconds: int | None = None
    key: str | None = None


def prepare(wish: Wish) -> Callable[[], tuple[Workload, bool]]:
    """Refuse what can be refused without the quota's locks, for which others wait. What is returned does the rest, in one transaction:
    it admits, or queues, or refuses (NeverFits, QuotaExceeded). Where it was wished before: that workload, and False."""
    tenant_policies.may_run(wish.actor, wish.tenant)
    if _earlier(wish) is None:
        _check(wish.tenant, wish.name, wish.time_limit_seconds)
        never = site_refusal(wish.resources)
        if never is not None:
            raise refusal(never)
    return partial(_request, wish)


@transaction.atomic(savepoint=False)
def _request(wish: Wish) -> tuple[Workload, bool]:
    user = wish.actor.user
    assert user is not None, "Tessera itself runs nothing"
    path = ledger.lock_path(wish.tenant.id)
    earlier = _earlier(wish)
    if earlier is not None:
        return earlier, False
    workload = Workload(
        kind=wish.kind, owner=user, tenant=wish.tenant, environment=wish.environment, request_key=wish.key or None
    )
    workload.name, workload.slug = wish.name.strip(), slug_for(wish.name, workload.id)
    workload.time_limit_seconds = wish.time_limit_seconds
    workload.resources = wish.resources
    _enqueue(workload, path)
    after = {
        "name": workload.name,
        "resources": asdict(wish.resources),
        "time_limit_seconds": wish.time_limit_seconds,
    }
    audit.record(actor=wish.actor, verb=f"{wish.kind}.create", target=workload, tenant=wish.tenant.id, after=after)
    return workload, True


def _earlier(wish: Wish) -> Workload | None:
    if not wish.key:
        return None
    return Workload.objects.filter(owner=wish.actor.user, request_key=wish.key).first()


def _check(tenant: Tenant, name: str, time_limit_seconds: int | None) -> None:
    fields: dict[str, str] = {}
    if tenant.kind != TenantKind.TENANT:
        fields["tenant"] = _("%(tenant)s is a department. Choose one of its tenants.") % {"tenant": tenant.name}
    if not 1 <= len(name.strip()) <= MAX_NAME or not _one_line(name):
        fields["name"] = _("Give it a name of 1 to %(most)d characters, on one line.") % {"most": MAX_NAME}
    if time_limit_seconds is not None and not MIN_TIME_LIMIT <= time_limit_seconds <= MAX_TIME_LIMIT:
        fields["time_limit_seconds"] = _("Choose between one minute and 30 days, or no limit.")
    if fields:
        raise InvalidInput(_("Some answers need another look."), fields=fields)


def _one_line(name: str) -> bool:
    """No control characters, line separators or halves of characters: what no page, log or database could show."""
    return not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)


def _enqueue(workload: Workload, path: ledger.Path) -> None:
    """Put it last in the queue, decide at once, and save it. Raises the refusal, which undoes the caller's transaction."""
    workload.queued_at = clock.now()
    decision = decide(workload, path)
    if decision.kind is Kind.REFUSE:
        raise refusal(decision)
    if decision.kind is Kind.WAIT:
        begin(workload, [(Event.QUEUE, decision.reason, decision.evidence)])
        bells.ring("controller")  # room may have come while this was decided
    else:
        begin(workload, [(Event.QUEUE, "queued", {}), (Event.ADMIT, decision.reason, decision.evidence)])


def refusal(decision: Decision) -> PortalError:
    """The error that a refused decision is for people and programs."""
    why = explain(decision.reason, decision.evidence)
    error = QuotaExceeded if decision.reason == "queue_full" else NeverFits
    evidence = {
        **decision.evidence,
        "reason": decision.reason,
        "nearest": asdict(decision.nearest) if decision.nearest else None,
    }
    return error(why.text, hint=why.action, evidence=evidence)


def locked(workload: Workload) -> Workload:
    """The row as it is now, locked. Raises NotFound where it was deleted meanwhile."""
    row = (
        Workload.objects.select_for_update(of=("self",), no_key=True)
        .select_related("owner", "tenant", "environment")
        .filter(id=workload.id, deleted_at=None)
        .first()
    )
    if row is None:
        raise NotFound(_("There is no such workload, or it is not yours to see."))
    return row


def want(workload: Workload, **fields: Any) -> None:
    """Change what is wanted: every change is a new generation and a new version."""
    for name, value in fields.items():
        setattr(workload, name, value)
    workload.generation += 1
    workload.version += 1
    workload.save(update_fields=[*fields, "generation", "version"])
    ring(workload)


def _end(workload: Workload, reason: str, evidence: Mapping[str, Any]) -> None:
    """Its claim stays held until the controller has seen it gone."""
    if workload.phase == Phase.QUEUED:
        bells.ring("controller")  # those behind it move up
    if not workload.has_ended and workload.phase != Phase.STOPPING:
        move(workload, Event.STOP, reason=reason, evidence=evidence)


def _who(actor: Actor, workload: Workload, why: str) -> tuple[str, dict[str, Any]]:
    if actor.user_id == workload.owner_id:
        return "stopped_by_user", {"by": actor.label}
    return "stopped_by_manager", {"by": actor.label, "why": why or "—"}


@transaction.atomic
def stop(*, actor: Actor, workload: Workload, reason: str = "") -> Workload:
    """Ask it to end; `reason` is shown to its owner. Again, or after its end, changes nothing."""
    row = locked(workload)
    policies.may_end(actor, row)
    if row.desired == Desired.RUNNING and not row.has_ended:
        want(row, desired=Desired.STOPPED)
        code, evidence = _who(actor, row, reason)
        _end(row, code, evidence)
        audit.record(actor=actor, verb=f"{row.kind}.stop", target=row, tenant=row.tenant_id, reason=reason)
    return row


@transaction.atomic
def expire(workload_id: UUID) -> bool:
    """Stop it if its time is up. Called by the controller's timer."""
    row = Workload.objects.select_for_update(no_key=True).filter(id=workload_id, desired=Desired.RUNNING).first()
    if row is None or row.expires_at is None or row.expires_at > clock.now() or row.has_ended:
        return False
    want(row, desired=Desired.STOPPED)
    _end(row, "time_limit", {"limit_seconds": row.time_limit_seconds or 0, "expired_at": row.expires_at.isoformat()})
    audit.record(actor=Actor.system(), verb=f"{row.kind}.stop", target=row, tenant=row.tenant_id, reason="time limit")
    return True


@transaction.atomic
def start(*, actor: Actor, workload: Workload) -> Workload:
    """A new run of something that has ended, through quota and queue again. Already running or waiting changes nothing."""
    policies.may_start(actor, workload)
    path = ledger.lock_path(workload.tenant_id)
    row = locked(workload)
    if row.desired == Desired.RUNNING and not row.has_ended:
        return row
    if row.desired == Desired.DELETED:
        raise NotFound(_("There is no such workload, or it is not yours to see."))
    if not row.has_ended or ledger.held().filter(workload_id=row.id).exists():
        raise Conflict(
            _("“%(name)s” is still stopping. Start it again in a moment.") % {"name": row.name}, code="still_stopping"
        )
    want(
        row,
        desired=Desired.RUNNING,
        run=row.run + 1,
        expires_at=None,
        next_due_at=None,
        exit_code=None,
        cards=[],
        node="",
        resize_from=None,
    )
    _enqueue(row, path)
    audit.record(actor=actor, verb=f"{row.kind}.start", target=row, tenant=row.tenant_id, after={"run": row.run})
    return row


@transaction.atomic
def extend(*, actor: Actor, workload: Workload, seconds: int) -> Workload:
    """`seconds` more before the time limit, at most 30 days from now."""
    row = locked(workload)
    policies.may_end(actor, row)
    if row.time_limit_seconds is None:
        raise Conflict(_("“%(name)s” has no time limit.") % {"name": row.name}, code="no_time_limit")
    if row.desired != Desired.RUNNING or row.has_ended:
        raise Conflict(_("“%(name)s” does not run.") % {"name": row.name}, code="not_running")
    latest = clock.now() + timedelta(seconds=MAX_TIME_LIMIT)
    expires_at = row.expires_at + timedelta(seconds=seconds) if row.expires_at else None
    if seconds < 1 or (expires_at or clock.now() + timedelta(seconds=row.time_limit_seconds + seconds)) > latest:
        raise InvalidInput(
            _("It cannot be extended so far."), fields={"seconds": _("The end may lie at most 30 days from now.")}
        )
    before = {"time_limit_seconds": row.time_limit_seconds}
    want(row, time_limit_seconds=row.time_limit_seconds + seconds, expires_at=expires_at)
    row.next_due_at = row.warn_at
    row.save(update_fields=["next_due_at"])
    bells.ring("controller")
    after = {"time_limit_seconds": row.time_limit_seconds}
    audit.record(actor=actor, verb=f"{row.kind}.extend", target=row, tenant=row.tenant_id, before=before, after=after)
    return row


@transaction.atomic
def rename(*, actor: Actor, workload: Workload, name: str) -> Workload:
    """For people; slug and files keep their names."""
    row = locked(workload)
    policies.may_end(actor, row)
    _check(row.tenant, name, None)
    before = row.name
    if name.strip() != before:
        want(row, name=name.strip())
        audit.record(
            actor=actor,
            verb=f"{row.kind}.rename",
            target=row,
            tenant=row.tenant_id,
            before={"name": before},
            after={"name": row.name},
        )
    return row


@transaction.atomic
def delete(*, actor: Actor, workload: Workload, reason: str = "") -> Workload:
    """Ask it to end and then to disappear. The row stays, marked deleted, once it was seen gone."""
    row = locked(workload)
    policies.may_end(actor, row)
    if row.desired != Desired.DELETED:
        want(row, desired=Desired.DELETED)
        _end(row, "deleted", {"by": actor.label})
        audit.record(actor=actor, verb=f"{row.kind}.delete", target=row, tenant=row.tenant_id, reason=reason)
    return row
