"""What the driver remembers of each run, on disk: enough to go on after any death of the driver, and for readers in other processes.

Owns `runs/<uid>/record.json`. A record is written before what it announces is done (a place is reserved before it is used).
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

from apps.cluster.drivers.local.placement import Grant
from apps.cluster.drivers.local.runner import journal
from apps.cluster.specs import Observation, Port, Probe, RunSpec, RunState, Volume
from apps.core import clock
from apps.core.errors import InvalidInput
from apps.core.share import GpuShare, Resources

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")  # with "-<run>" behind, still a name that the agent takes
_FILE = "record.json"
RUNNING = frozenset({RunState.STARTING, RunState.READY, RunState.STOPPING})
PLACED = RUNNING | {RunState.PREPARING}


@dataclass(slots=True, kw_only=True)
class Record:
    """One run of one workload. `uid_number` and `gid_number` are None where all runs share the driver's own account."""

    spec: RunSpec
    accepted_at: datetime
    state: RunState
    since: datetime
    reason: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0  # counts the runners of this run; a report of an earlier one is not believed
    grants: tuple[Grant, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    token: str = ""
    uid_number: int | None = None
    gid_number: int | None = None
    groups: tuple[str, ...] = ()
    boot: str = ""
    grace: float | None = None  # seconds; set once somebody asked for the end
    end_reason: str = ""
    exit_code: int | None = None
    successor: RunSpec | None = None  # begins when this one is gone

    @property
    def uid(self) -> str:
        return self.spec.uid

    @property
    def claim(self) -> str:
        return f"{self.spec.uid}-{self.spec.run}"

    @property
    def marker(self) -> str:
        return self.claim

    def observation(self, node: str, at: datetime) -> Observation:
        return Observation(
            uid=self.uid,
            run=self.spec.run,
            state=self.state,
            observed_at=at,
            reason=self.reason,
            evidence=dict(self.evidence),
            cards=tuple(grant.card for grant in self.grants),
            node=node,
            exit_code=self.exit_code,
        )


def uid_of_claim(name: str) -> str:
    """The workload behind a claim's name; names that this driver did not give stay as they are."""
    uid, _, run = name.rpartition("-")
    return uid if uid and run.isdigit() else name


class Store:
    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, uid: str) -> Path:
        if not _UID.fullmatch(uid):
            raise InvalidInput(f"{uid!r} cannot name a run; use 1 to 80 letters, digits, '-' and '_'.")
        return self._root / uid

    def create(self, spec: RunSpec) -> Record:
        now = clock.now()
        record = Record(spec=spec, accepted_at=now, state=RunState.WAITING, since=now)
        folder = self.folder(spec.uid)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in ("exit.json", "stop.json", "main.json"):
            (folder / old).unlink(missing_ok=True)
        for log in folder.glob("log-*"):
            log.unlink()
        self.save(record)
        return record

    def save(self, record: Record) -> None:
        journal.write(str(self.folder(record.uid)), _FILE, _to_json(record))

    def load(self, uid: str) -> Record | None:
        content = journal.read(str(self.folder(uid)), _FILE)
        return None if content is None else _from_json(content)

    def all(self) -> Iterator[Record]:
        if not self._root.is_dir():
            return
        for folder in sorted(self._root.iterdir()):
            record = self.load(folder.name) if _UID.fullmatch(folder.name) else None
            if record is not None:
                yield record

    def forget(self, uid: str) -> None:
        rmtree(self.folder(uid), ignore_errors=True)

    def log(self, record: Record) -> Path:
        return self.folder(record.uid) / f"log-{record.spec.run}"


def _to_json(record: Record) -> dict[str, Any]:
    content = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    for name in ("accepted_at", "since"):
        content[name] = content[name].isoformat()
    content["grants"] = [asdict(grant) for grant in record.grants]
    for name in ("spec", "successor"):
        content[name] = _spec_to_json(content[name]) if content[name] else None
    return content


def _from_json(content: dict[str, Any]) -> Record:
    for name in ("accepted_at", "since"):
        content[name] = datetime.fromisoformat(content[name])
    content["state"] = RunState(content["state"])
    content["grants"] = tuple(Grant(**grant) for grant in content["grants"])
    content["groups"] = tuple(content["groups"])
    for name in ("spec", "successor"):
        content[name] = _spec_from_json(content[name]) if content[name] else None
    return Record(**content)


def _spec_to_json(spec: RunSpec) -> dict[str, Any]:
    return asdict(replace(spec, env=dict(spec.env), labels=dict(spec.labels)))


def _spec_from_json(content: dict[str, Any]) -> RunSpec:
    resources = content["resources"]
    gpu = GpuShare(**resources["gpu"]) if resources["gpu"] else None
    return RunSpec(
        **content
        | {
            "resources": Resources(gpu=gpu, cpu_milli=resources["cpu_milli"], ram=resources["ram"]),
            "command": tuple(content["command"]),
            "ports": tuple(Port(**port) for port in content["ports"]),
            "volumes": tuple(Volume(**volume) for volume in content["volumes"]),
            "probe": Probe(**content["probe"]) if content["probe"] else None,
        }
    )
