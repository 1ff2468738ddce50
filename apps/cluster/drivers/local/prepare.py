"""What a run needs before its program can start: environment, account, folders, control groups, and its claim on the cards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.cluster.drivers.local import launch
from apps.cluster.drivers.local.accounts import Identity
from apps.cluster.drivers.local.agent import Claim, Refused
from apps.cluster.drivers.local.folders import Places
from apps.cluster.drivers.local.records import Record
from apps.cluster.drivers.local.runner import groups
from apps.cluster.drivers.local.site import Site
from apps.cluster.specs import RunState
from apps.core.errors import Conflict, InvalidInput, Unavailable

Note = Callable[[RunState, str, Mapping[str, Any]], None]


class NotStarted(Exception):
    """The run ends before its program began, for a reason of the catalogue."""

    def __init__(self, reason: str, evidence: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.reason, self.evidence = reason, dict(evidence)


@dataclass(frozen=True, slots=True)
class Prepared:
    places: Places
    env: dict[str, str]


async def prepare(record: Record, site: Site, note: Note) -> Prepared:
    """Idempotent; fills in the record's account and groups. Waits for an agent that does not answer."""
    spec = record.spec
    environment = site.environments / spec.environment
    if "/" in spec.environment or not (environment / "bin").is_dir():
        raise NotStarted("environment_missing", {"environment": spec.environment})
    identity = site.accounts.identity(spec.account)
    if identity is not None:
        record.uid_number, record.gid_number = identity.uid, identity.gid
    try:
        places = site.folders.make(record.claim, spec.volumes, identity)
    except (InvalidInput, OSError) as error:
        raise NotStarted("start_failed", {"problem": str(error)}) from error
    made = groups.make(site.group_bases, record.claim, cpu_milli=spec.resources.cpu_milli, ram=spec.resources.ram)
    record.groups = tuple(made)
    site.store.save(record)
    claim = await _claim(record, site, identity or site.accounts.own(), note) if record.grants else None
    return Prepared(places, launch.variables(record, environment, places, _claimed(claim)))


def _claimed(claim: Claim | None) -> dict[str, str]:
    return {} if claim is None else {**claim.env, "LD_LIBRARY_PATH": claim.library_path}


async def _claim(record: Record, site: Site, identity: Identity, note: Note) -> Claim:
    swept = False
    while True:
        try:
            group = groups.unified(record.groups)
            return await site.agent.put_claim(record.claim, record.grants, identity.uid, identity.gid, group)
        except Conflict as error:
            if swept:
                raise NotStarted("start_failed", {"problem": str(error.message)}) from error
            swept = True
            await site.sweep()  # perhaps the claim of a run that ended while the agent was away
        except (InvalidInput, Refused) as error:
            raise NotStarted("start_failed", {"problem": str(error.message)}) from error
        except Unavailable:
            note(RunState.PREPARING, "agent_unavailable", {})
            await site.link.next_contact()
