"""Makes rows again from what the cluster runs, when the portal's database was lost. Nothing that runs is touched.

Only a database without any workload takes them in by itself: in every other one, a run without a row may belong to a database that
will be restored, or to something that was deleted on purpose. There an operator decides, one by one.
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.audit import services as audit
from apps.audit.context import Actor
from apps.catalog.models import Environment
from apps.cluster.specs import RunSpec
from apps.core import clock, ids
from apps.core.errors import Conflict, NotPermitted
from apps.quotas import services as quotas
from apps.tenants.models import Tenant
from apps.workloads import kinds
from apps.workloads.lease import Fence
from apps.workloads.models import Workload
from apps.workloads.moves import begin
from apps.workloads.states import Event

SYSTEM = Actor.system("Tessera (adoption)")
TIME_LIMIT = "time_limit_seconds"  # label of a RunSpec


def is_fresh() -> bool:
    return not Workload.objects.exists()


@transaction.atomic
def adopt(fence: Fence, spec: RunSpec) -> Workload | None:
    """The row of this run, its owner, tenant and claim on the quota; None where it is known already, or of no kind that we know.

    The claim is written whatever the quota says: what runs holds. The next reconciliation sees how far the run is.
    """
    fence.check()
    return _take_in(spec, SYSTEM)


@transaction.atomic
def adopt_one(*, actor: Actor, spec: RunSpec, reason: str = "") -> Workload:
    """An operator takes in one run that has no row, also where the database has others.

    It needs no lease: a controller writes rows that are there, and two that insert this one meet at its key.
    """
    if not actor.is_operator:
        raise NotPermitted(_("Only operators take in what runs without a row."))
    made = _take_in(spec, actor, reason)
    if made is None:
        raise Conflict(_("“%(name)s” is known already, or of no kind that this portal knows.") % {"name": spec.name})
    return made


def _take_in(spec: RunSpec, actor: Actor, reason: str = "") -> Workload | None:
    uid = _uuid(spec.uid)
    if uid is None or not kinds.is_known(spec.kind) or Workload.objects.filter(id=uid).exists():
        return None
    now = clock.now()
    workload = Workload(id=uid, kind=spec.kind, name=spec.name, slug=spec.slug, run=spec.run, queued_at=now)
    workload.owner, workload.tenant, workload.environment = _owner(spec), _tenant(spec), _environment(spec)
    workload.resources = spec.resources
    limit = spec.labels.get(TIME_LIMIT, "")
    workload.time_limit_seconds = int(limit) if limit.isdecimal() else None
    begin(workload, [(Event.QUEUE, "queued", {}), (Event.ADMIT, "admitted", {})])
    kinds.get(spec.kind).adopt(workload, spec)
    quotas.take_over(
        workload_id=workload.id,
        run=spec.run,
        tenant_id=workload.tenant_id,
        owner_id=workload.owner_id,
        resources=spec.resources,
    )
    _record(workload, now, actor, reason)
    return workload


def _record(workload: Workload, now: datetime, actor: Actor, reason: str) -> None:
    after = {"name": workload.name, "owner": workload.owner.username, "run": workload.run, "at": now.isoformat()}
    verb, tenant = f"{workload.kind}.adopt", workload.tenant_id
    audit.record(actor=actor, verb=verb, target=workload, tenant=tenant, after=after, reason=reason)


def _owner(spec: RunSpec) -> User:
    """By name; made without a password where there is none, so that an operator can give it back to its person."""
    name = spec.labels.get("owner") or spec.owner
    known = User.objects.filter(username=name).first()
    if known is not None:
        return known
    user = User(id=_uuid(spec.owner) or ids.new_id(), username=name)
    user.set_unusable_password()
    user.save(force_insert=True)
    return user


def _tenant(spec: RunSpec) -> Tenant:
    """By its slug; made without members and quota where there is none."""
    slug = spec.labels.get("tenant") or spec.tenant
    known = Tenant.objects.filter(slug=slug).first()
    made = _uuid(spec.tenant) or ids.new_id()
    return known or Tenant.objects.create(id=made, slug=slug, name=spec.labels.get("tenant_name") or slug)


def _environment(spec: RunSpec) -> Environment:
    """By its slug; made as one that cannot be chosen where there is none."""
    slug = spec.labels.get("environment") or "adopted"
    made, _made_now = Environment.objects.get_or_create(
        slug=slug, defaults={"name": slug, "kind": spec.kind, "key": spec.environment, "is_active": False}
    )
    return made


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
