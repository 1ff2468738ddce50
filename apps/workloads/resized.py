"""The controller's part of a share that changes while its workload runs: ask the cluster, write down what it said.

Safe to kill anywhere: as long as `resize_from` is set, the same is asked again, and the cluster's call is idempotent.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db import transaction

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.cluster.protocol import Cluster
from apps.core.errors import NotFound, PortalError, Unavailable
from apps.core.share import GpuShare
from apps.quotas import services as quotas
from apps.workloads import notices
from apps.workloads.lease import Fence
from apps.workloads.models import Workload
from apps.workloads.moves import ring

Result = TypeVar("Result")


class Database(Protocol):
    """Runs a synchronous function in the thread that owns the connection."""

    async def __call__(self, function: Callable[..., Result], *args: Any) -> Result: ...


class Loaded(Protocol):
    @property
    def workload_id(self) -> UUID: ...
    @property
    def run(self) -> int: ...


async def resized(
    cluster: Cluster, database: Database, fence: Fence, loaded: Loaded, share: GpuShare
) -> tuple[bool, bool]:
    """Whether quota came free, and whether there is more to do at once. Raises Unavailable; then nothing is known.

    A run that has no cards (any more) is no refusal: what is seen of it next says how it is.
    """
    try:
        kept = await cluster.resize(str(loaded.workload_id), loaded.run, share)
    except Unavailable:
        raise
    except NotFound:
        return False, False
    except PortalError as error:
        return False, await database(record_refused, fence, loaded, share, error)
    return await database(record_resized, fence, loaded, share, kept)


@transaction.atomic
def record_resized(fence: Fence, loaded: Loaded, share: GpuShare, kept: GpuShare) -> tuple[bool, bool]:
    """`share` is in force; the quota is charged what the cluster keeps. Where yet another one is wanted by now, that comes next."""
    row = _locked(fence, loaded)
    if row is None:
        return False, False
    more = row.share != share
    freed = not more and quotas.fit(workload_id=row.id, run=row.run, resources=replace(row.resources, gpu=kept))
    _save(row, asdict(share) if more else None)
    return freed, more


@transaction.atomic
def record_refused(fence: Fence, loaded: Loaded, share: GpuShare, error: PortalError) -> bool:
    """The cluster has the last word: the share that was in force is wanted again, and brought about like any other."""
    row = _locked(fence, loaded)
    if row is None or row.share != share:
        return row is not None
    assert row.resize_from is not None, "by the query"
    before = GpuShare(**row.resize_from)
    if before == share:  # it was in force and is refused now: nothing better is known than to leave it
        _save(row, None)
        return False
    row.resources = replace(row.resources, gpu=before)
    row.save(update_fields=["gpu_memory", "gpu_compute", "gpu_ceiling"])
    _save(row, row.resize_from)
    evidence = {"problem": str(error.message), **error.evidence, "code": error.code}
    notices.tell(row, notices.RESIZE_REFUSED, evidence)
    audit.record(
        actor=Actor.system(),
        verb=f"{row.kind}.resize_refused",
        target=row,
        tenant=row.tenant_id,
        before=asdict(share),
        after=asdict(before),
        reason=str(error.message),
    )
    return True


def _locked(fence: Fence, loaded: Loaded) -> Workload | None:
    fence.check()
    rows = Workload.objects.select_for_update(no_key=True)
    return rows.filter(id=loaded.workload_id, run=loaded.run, resize_from__isnull=False).first()


def _save(row: Workload, resize_from: dict[str, int] | None) -> None:
    row.resize_from = resize_from
    row.version += 1
    row.save(update_fields=["resize_from", "version"])
    ring(row, by_controller=True)
