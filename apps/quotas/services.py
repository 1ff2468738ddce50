"""Writes the ledger and the quotas. `claim` and `settle` are called inside the transaction of the workload that they are for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.core import bells, clock
from apps.core.errors import Conflict, InvalidInput
from apps.core.share import Resources
from apps.quotas import ledger
from apps.quotas.admission import AMOUNTS, Amounts, Decision, Kind, decide, decide_change
from apps.quotas.ledger import LIMITS, Path, Waiting
from apps.quotas.models import Claim, Quota
from apps.quotas.selectors import Line, lines
from apps.tenants import policies
from apps.tenants.models import Tenant
from apps.tenants.tree import path_to


def claim(
    *, path: Path, owner_id: UUID, resources: Resources, workload_id: UUID, run: int, waiting: Waiting
) -> Decision:
    """Decide, and write the claim where admitted. `path` comes from `ledger.lock_path` in this transaction."""
    decision = decide(resources, ledger.nodes(path, owner_id, waiting), has_place=waiting.has_place)
    if decision.kind is Kind.ADMIT:
        _write(workload_id, run, path.tenant.id, owner_id, resources)
        bells.ring(f"user:{owner_id}", *path.topics)
    return decision


def take_over(*, workload_id: UUID, run: int, tenant_id: UUID, owner_id: UUID, resources: Resources) -> None:
    """The claim of something that was found running: held whatever the limits say."""
    path = ledger.lock_path(tenant_id)
    _write(workload_id, run, tenant_id, owner_id, resources)
    bells.ring(f"user:{owner_id}", *path.topics)


def _write(workload_id: UUID, run: int, tenant_id: UUID, owner_id: UUID, resources: Resources) -> None:
    amounts = Amounts.of(resources)
    Claim.objects.create(
        workload_id=workload_id,
        run=run,
        tenant_id=tenant_id,
        owner_id=owner_id,
        **{name: getattr(amounts, name) for name in AMOUNTS},
    )


def preview_exchange(*, path: Path, claim: Claim, resources: Resources, waiting: Waiting) -> Decision:
    """What `exchange` would decide; true as long as the locks of `path` are held."""
    held = Amounts(**{name: getattr(claim, name) for name in AMOUNTS}, running=1)
    return decide_change(held, resources, ledger.nodes(path, claim.owner_id, waiting))


def exchange(*, path: Path, claim: Claim, resources: Resources, waiting: Waiting) -> Decision:
    """Decide whether a held claim may become one on `resources`. Until `fit` tells what the cluster keeps, it holds the larger of both."""
    decision = preview_exchange(path=path, claim=claim, resources=resources, waiting=waiting)
    if decision.kind is Kind.ADMIT:
        asked = Amounts.of(resources)
        _hold(claim, {name: max(getattr(claim, name), getattr(asked, name)) for name in AMOUNTS})
    return decision


def fit(*, workload_id: UUID, run: int, resources: Resources) -> bool:
    """A claim becomes what the cluster keeps now, as it was observed. Returns whether something came free."""
    claim = ledger.held().filter(workload_id=workload_id, run=run).first()
    if claim is None:
        return False
    kept = {name: getattr(Amounts.of(resources), name) for name in AMOUNTS}
    freed = any(getattr(claim, name) > amount for name, amount in kept.items())
    _hold(claim, kept)
    return freed


def _hold(claim: Claim, amounts: Mapping[str, int]) -> None:
    if all(getattr(claim, name) == amount for name, amount in amounts.items()):
        return
    for name, amount in amounts.items():
        setattr(claim, name, amount)
    claim.save(update_fields=list(amounts))
    bells.ring(f"user:{claim.owner_id}", *(f"tenant:{node}" for node in path_to(claim.tenant_id)))


def settle(*, workload_id: UUID, run: int) -> bool:
    """Give the claim of this run back: its processes were observed gone. False where it had been given back already."""
    claims = ledger.held().filter(workload_id=workload_id, run__lte=run)
    places = list(claims.values_list("tenant_id", "owner_id"))
    settled = claims.update(settled_at=clock.now()) if places else 0
    for tenant_id, owner_id in places:
        bells.ring(f"user:{owner_id}", *(f"tenant:{node}" for node in path_to(tenant_id)))
    return bool(settled)


@dataclass(frozen=True, slots=True)
class QuotaEffect:
    """What a new quota means: every limit with its use, and those lines that are above it now. Nothing that runs is stopped."""

    version: int
    before: dict[str, int | None]
    after: dict[str, int | None]
    lines: list[Line]

    @property
    def above(self) -> list[Line]:
        return [line for line in self.lines if line.limit is not None and line.used > line.limit]


@transaction.atomic
def set_quota(
    *,
    actor: Actor,
    tenant: Tenant,
    limits: Mapping[str, int | None],
    expected_version: int | None = None,
    dry_run: bool = False,
) -> QuotaEffect:
    """Set the named limits (None: no limit); those not named stay. Lowering below use keeps what runs and admits nothing new.

    `expected_version` is what the asker saw; another one now is a Conflict. 0 means "no quota yet".
    """
    policies.may_set_quota(actor, tenant)
    _check(limits)
    ledger.lock_path(tenant.id)
    quota = Quota.objects.filter(tenant=tenant).first()
    version = quota.version if quota else 0
    if expected_version is not None and expected_version != version:
        raise Conflict(
            _("Somebody else changed this quota meanwhile."),
            code="version_conflict",
            hint=_("Look at it again, then decide."),
            evidence={"version": version, "expected_version": expected_version},
        )
    quota = quota or Quota(tenant=tenant, version=0)
    before = {name: getattr(quota, name) for name in LIMITS} if version else {}
    for name, value in limits.items():
        setattr(quota, name, value)
    after = {name: getattr(quota, name) for name in LIMITS}
    if not dry_run and before != after:
        quota.version, quota.updated_at = version + 1, clock.now()
        quota.save()
        audit.record(actor=actor, verb="quota.set", target=tenant, tenant=tenant.id, before=before, after=after)
        bells.ring(f"tenant:{tenant.id}", "controller")
    return QuotaEffect(quota.version, before, after, lines(tenant, quota))


def _check(limits: Mapping[str, Any]) -> None:
    fields: dict[str, str] = {}
    for name, value in limits.items():
        if name not in LIMITS:
            fields[name] = _("There is no such limit. Known: %(known)s.") % {"known": ", ".join(LIMITS)}
        elif value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62):
            fields[name] = _("A whole number from 0, or nothing for no limit.")
    if fields:
        raise InvalidInput(_("This quota cannot be set."), fields=fields)
