"""The portal's side of a comparison with the cluster: what the ledger says, and how an operator sets it right."""

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.cluster.differences import Difference, Row
from apps.core import bells
from apps.core.errors import Conflict, NotPermitted
from apps.core.share import Resources
from apps.quotas import ledger
from apps.quotas import services as quotas
from apps.quotas.admission import AMOUNTS
from apps.quotas.models import Claim
from apps.workloads.models import Workload

_BATCH = 500  # ids per statement: below SQLite's limit on variables


def rows(uids: Iterable[str]) -> list[Row]:
    """Of all that holds quota, and of these workloads whether they do or not."""
    claims = {claim.workload_id: claim for claim in ledger.held()}
    wanted = list(claims.keys() | {uuid for uid in uids if (uuid := _uuid(uid)) is not None})
    known: dict[UUID, Workload] = {}
    for start in range(0, len(wanted), _BATCH):
        known |= Workload.objects.in_bulk(wanted[start : start + _BATCH])
    found = [_row(workload, claims.get(workload.id)) for workload in known.values()]
    return found + [_lost(claim) for claim in claims.values() if claim.workload_id not in known]


def _row(workload: Workload, claim: Claim | None) -> Row:
    ended = workload.has_ended or workload.deleted_at is not None
    held_at = claim.held_at if claim is not None else None
    return Row(workload.uid, workload.run, workload.name, workload.resources, ended, claim is not None, held_at)


def _lost(claim: Claim) -> Row:
    """Its workload's row is no more."""
    resources = Resources(gpu=None, cpu_milli=claim.cpu_milli, ram=claim.ram)
    return Row(str(claim.workload_id), claim.run, "", resources, ended=True, holds=True, held_at=claim.held_at)


@transaction.atomic
def settle(*, actor: Actor, workload_id: UUID, reason: str = "") -> None:
    """Give back what is held for something that the caller has seen to be nowhere in the cluster."""
    _operators_only(actor)
    workload = Workload.objects.select_for_update(no_key=True).filter(id=workload_id).first()
    claim = ledger.held().filter(workload_id=workload_id).first()
    if claim is None:
        raise Conflict(_("It holds nothing any more."))
    if workload is not None and not workload.has_ended and workload.deleted_at is None:
        raise Conflict(
            _("“%(name)s” has not ended, so the controller gives its share back when it sees it gone.")
            % {"name": workload.name}
        )
    quotas.settle(workload_id=workload_id, run=claim.run)
    before = {"run": claim.run, **{name: getattr(claim, name) for name in AMOUNTS}}
    audit.record(actor=actor, verb="claim.settle", target=claim, tenant=claim.tenant_id, before=before, reason=reason)
    bells.ring("controller")


def record_removal(*, actor: Actor, difference: Difference, reason: str = "") -> None:
    """Written before it is done: what was asked for must not be lost with a connection that breaks."""
    _operators_only(actor)
    uid = _uuid(difference.uid)
    workload = Workload.objects.filter(id=uid).first() if uid else None
    target = workload or Workload(id=uid, name=str(difference.evidence.get("name") or difference.uid or "—"))
    tenant = workload.tenant_id if workload else None
    before = {"kind": difference.kind.value, "objects": list(difference.objects)}
    audit.record(actor=actor, verb="cluster.remove", target=target, tenant=tenant, before=before, reason=reason)


def _operators_only(actor: Actor) -> None:
    if not actor.is_operator:
        raise NotPermitted(_("Only operators do that."))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
