"""Reads workloads, authorised in the query."""

from datetime import timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.cluster import selectors as cluster
from apps.core import clock
from apps.core.errors import NotFound
from apps.core.reasons import Explanation, explain
from apps.tenants.models import Role
from apps.tenants.selectors import RANK, role_in, tenants_where
from apps.workloads.models import Notice, Phase, Step, Workload

STALE_AFTER = timedelta(seconds=45)  # three heartbeats of the controller


def visible_to(actor: Actor) -> QuerySet[Workload]:
    """Not deleted: one's own, and all of the tenants where the actor has a role. Newest first."""
    rows = Workload.objects.filter(deleted_at=None).select_related("owner", "tenant", "environment")
    if actor.sees_everything:
        return rows
    seen = tenants_where(actor, at_least=Role.VIEWER).order_by().values("id")
    if actor.tenant_id is not None:
        return rows.filter(tenant__in=seen)
    return rows.filter(Q(owner_id=actor.user_id) | Q(tenant__in=seen))


def get(actor: Actor, workload_id: UUID) -> Workload:
    workload = visible_to(actor).filter(id=workload_id).first()
    if workload is None:
        raise NotFound(_("There is no such workload, or it is not yours to see."))
    return workload


def steps(workload: Workload, run: int | None = None) -> QuerySet[Step]:
    """Of one run (None: the latest), in order."""
    return Step.objects.filter(workload=workload, run=workload.run if run is None else run)


def notices(workload: Workload, run: int | None = None) -> QuerySet[Notice]:
    """What people should know of one run (None: the latest), the newest first; those that still hold have no end."""
    return Notice.objects.filter(workload=workload, run=workload.run if run is None else run)


def position(workload: Workload) -> int | None:
    """Its place in the queue of its tenant, from 1; None where it does not wait for quota."""
    if workload.phase != Phase.QUEUED:
        return None
    ahead = Workload.objects.filter(tenant=workload.tenant_id, phase=Phase.QUEUED, queued_at__lt=workload.queued_at)
    return ahead.count() + 1


def is_unknown(workload: Workload) -> bool:
    """Whether the last observation is too old to be shown as the present: then its state is unknown, not gone and not idle."""
    if workload.phase in (Phase.DRAFT, Phase.QUEUED, Phase.STOPPED, Phase.FAILED):
        return False
    seen = workload.observed_at or workload.phase_since
    return clock.now() - seen > STALE_AFTER


def explanation(workload: Workload) -> Explanation:
    """Why it waits, what it does now, or why it ended, in the current language."""
    if is_unknown(workload):
        site = cluster.site()
        since = max(filter(None, (workload.observed_at, workload.phase_since, site.observed_at if site else None)))
        return explain("cluster_unknown", {"since": timezone.localtime(since).strftime("%Y-%m-%d %H:%M:%S")})
    return explain(workload.reason or workload.phase, workload.evidence)


def reachable(user: User, slug: str) -> Workload | None:
    """The workload behind a host name, if `user` may open it: its owner while a member of its tenant; operators (the gateway audits them).

    Members, viewers and managers see it in lists but do not enter other people's sessions.
    """
    workload = Workload.objects.filter(slug=slug, deleted_at=None).select_related("owner", "tenant").first()
    if workload is None or not user.is_active:
        return None
    if user.is_operator:
        return workload
    if workload.owner_id != user.id:
        return None
    role = role_in(Actor.person(user), workload.tenant)
    return workload if role is not None and RANK[role] >= RANK[Role.MEMBER] else None
