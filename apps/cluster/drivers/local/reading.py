"""Answers that need no started driver: from the records, the logs and the agent. Any process of the portal may ask."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import structlog

from apps.cluster.drivers.local import ends
from apps.cluster.drivers.local import logs as output
from apps.cluster.drivers.local.inventory import cards_of, samples_of, with_promises
from apps.cluster.drivers.local.liveness import holder
from apps.cluster.drivers.local.records import RUNNING, Record
from apps.cluster.drivers.local.runner import groups, journal
from apps.cluster.drivers.local.site import Site, machine_cpu_milli
from apps.cluster.specs import Endpoint, Inventory, LogChunk, Observation, Resizing, RunState, Sample
from apps.core import clock
from apps.core.errors import NotFound, Unavailable

log = structlog.get_logger(__name__)

_AGAIN = 1.0  # s between attempts to listen to an agent that is away


def key(state: Path) -> str:
    """Short name of a state folder, to tell several portals of one machine apart."""
    return hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:8]


def absent(uid: str) -> Observation:
    return Observation(uid=uid, run=0, state=RunState.ABSENT, observed_at=clock.now())


def observation(site: Site, uid: str) -> Observation:
    """What the records say, checked against the runner's lock: the driver that wrote them may be gone."""
    record = site.store.load(uid)
    if record is None:
        return absent(uid)
    folder = site.store.folder(uid)
    if record.state in RUNNING and holder(folder / "lock") is None:
        report = journal.read(str(folder), "exit.json")
        if report is None or report["attempt"] != record.attempt:
            record.state, record.reason, record.evidence = RunState.UNKNOWN, "cluster_unknown", {}
        else:
            record.reason, record.evidence = ends.reason(record, report, site.boot, site.store.log(record))
            record.state, record.grants, record.exit_code = RunState.EXITED, (), report["code"]
    return record.observation(site.node, clock.now())


def logs(site: Site, uid: str, offset: int, limit: int) -> LogChunk:
    record = site.store.load(uid)
    if record is None:
        raise NotFound(f"There is no run {uid}, so it has no output.")
    ended = record.state is RunState.EXITED
    return output.read(site.store.log(record), offset=offset, limit=limit, ended=ended)


def endpoint(site: Site, uid: str, port: str) -> Endpoint:
    record = site.store.load(uid)
    if record is None or record.state not in RUNNING or port not in record.ports:
        raise NotFound(f"Run {uid} has no open port “{port}” now.")
    return Endpoint("127.0.0.1", record.ports[port], {"Authorization": f"Bearer {record.token}"})


def uses(record: Record, volume: str) -> bool:
    return any(used.name == volume for used in record.spec.volumes)


async def inventory(site: Site, ram: int) -> Inventory:
    answer = await site.agent.cards()
    cards = with_promises(cards_of(answer, site.node), site.store.all())
    notes = list(answer.get("notes", ()))
    if not groups.limiting(groups.bases(key(site.folders.state), make=False)):
        notes.append("no_cgroup_limits")
    return Inventory(
        driver="local",
        observed_at=clock.now(),
        cards=cards,
        cpu_milli=machine_cpu_milli(),
        ram=ram,
        isolation="accounts_per_tenant" if site.accounts.apart else "single_account",
        resizing=Resizing.FULL,
        notes=tuple(notes),
    )


async def samples(site: Site) -> AsyncIterator[Sequence[Sample]]:
    """Goes on after the agent was away; in between there is nothing, which is not zero."""
    while True:
        try:
            async for batch in site.agent.samples():
                yield samples_of(batch)
        except Unavailable as error:
            log.info("no_samples", problem=str(error.message))
        await asyncio.sleep(_AGAIN)
