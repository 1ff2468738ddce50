"""Another share for a run that goes on running: promised here before the agent is asked, so that nobody is placed into its room meanwhile."""

from collections.abc import Sequence
from dataclasses import replace

from apps.cluster.drivers.local.placement import Grant
from apps.cluster.drivers.local.records import Record
from apps.cluster.drivers.local.site import Site
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.share import GpuShare


async def resize(record: Record | None, run: int, share: GpuShare, site: Site) -> GpuShare:
    """Raises Unavailable where the agent does not answer; then the larger of both shares stays promised."""
    if record is None or record.spec.run != run or not record.grants:
        raise NotFound("This run has no GPU now.")
    before = record.grants
    if share.count != len(before) or share.exclusive or any(grant.compute == 1000 for grant in before):
        raise Conflict(
            "The number of GPUs, and whether they are whole ones, stay as they are.", code="resize_not_offered"
        )
    wanted = tuple(_limited(grant, share) for grant in before)
    record.grants = tuple(_larger(old, new) for old, new in zip(before, wanted, strict=True))
    site.store.save(record)
    try:
        await site.agent.change_claim(record.claim, wanted)
    except (Conflict, InvalidInput, NotFound) as error:
        record.grants = before
        site.store.save(record)
        raise Conflict(error.message, code="resize_card", evidence=_room(error, share)) from error
    record.grants = wanted
    record.spec = replace(record.spec, resources=replace(record.spec.resources, gpu=share))
    site.store.save(record)
    return share


def _limited(grant: Grant, share: GpuShare) -> Grant:
    return Grant(card=grant.card, memory=share.memory, compute=share.compute, ceiling=share.ceiling)


def _larger(old: Grant, new: Grant) -> Grant:
    return replace(new, memory=max(old.memory, new.memory), compute=max(old.compute, new.compute))


def _room(error: Conflict | InvalidInput | NotFound, share: GpuShare) -> dict[str, int | Sequence[str]]:
    """In the words of the catalogue."""
    told = error.evidence
    return {
        "asked_bytes": share.memory,
        "asked_permille": share.compute,
        "room_bytes": told.get("memory", 0),
        "room_permille": told.get("compute", 0),
    }
