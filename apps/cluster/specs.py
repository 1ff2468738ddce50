"""The words in which the portal and a cluster driver speak: what shall run, what is seen. Plain data, no Django, no driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from apps.core.share import Resources


@dataclass(frozen=True, slots=True)
class Port:
    """A port on which the workload answers; the driver chooses the real number where the workload lets it."""

    name: str
    protocol: str = "http"


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder that outlives the run. `name` is a key chosen by the portal, unique for tenant and owner; `path` is where the program finds it."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Probe:
    """How the workload shows that it answers: an HTTP GET of `path` on `port` through its address; any status below 500 counts."""

    port: str
    path: str


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of one workload, driver-neutral. `uid` names it in the cluster for good; `run` counts its starts."""

    uid: str
    run: int
    kind: str
    name: str  # any script, for people
    slug: str  # DNS label, unique; the host name under the gateway's domain
    tenant: str
    owner: str
    account: str  # who it runs as: runs of one account may read each other's files, runs of different accounts may not
    environment: str  # key of the environment: a local environment or an image, the driver knows which
    command: tuple[str, ...]
    resources: Resources
    env: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    volumes: tuple[Volume, ...] = ()
    probe: Probe | None = None
    grace_seconds: int = 10
    labels: Mapping[str, str] = field(
        default_factory=dict
    )  # everything needed to rebuild the row from the cluster alone


class RunState(StrEnum):
    UNKNOWN = "unknown"  # the driver could not look; never to be read as gone or idle
    ABSENT = "absent"  # looked, and there is nothing
    WAITING = "waiting"  # accepted, no room yet
    PREPARING = "preparing"  # has its place; files, image, claim are being made
    STARTING = "starting"  # the program runs and does not answer yet
    READY = "ready"  # the probe was answered
    STOPPING = "stopping"
    EXITED = "exited"  # the program ended by itself; the place is given back


@dataclass(frozen=True, slots=True)
class Observation:
    """What the driver saw of one workload, and when. `reason` is a code of the catalogue in `core.reasons`, with its evidence."""

    uid: str
    run: int
    state: RunState
    observed_at: datetime
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    cards: tuple[str, ...] = ()  # UUIDs of the cards that it holds
    node: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the gateway connects, and the headers that it must add (a server's own secret). Headers never leave the gateway."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holder:
    """One run's part of one card."""

    uid: str
    memory: int
    compute: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU as the cluster shows it. `memory` is allocatable: physical less what the driver keeps."""

    uuid: str
    node: str
    index: int
    model: str
    memory: int
    physical_memory: int
    healthy: bool = True
    health_reason: str = ""
    simulated: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()

    @property
    def free_memory(self) -> int:
        return self.memory - sum(h.memory for h in self.holders)

    @property
    def free_compute(self) -> int:
        return 1000 - sum(h.compute for h in self.holders)


@dataclass(frozen=True, slots=True)
class Slicing:
    """How cards are cut where there is more than one way: `reason` and `cannot` are codes of the catalogue."""

    adapter: str
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    cannot: tuple[str, ...] = ()


class Resizing(StrEnum):
    """What `Cluster.resize` can do here."""

    NONE = "none"
    WITHIN = "within"  # ceiling and memory, within what the cluster keeps for the run for good; the guarantee stays
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that the driver knows about its machines at `observed_at`. `isolation` tells the operator how runs are kept apart."""

    driver: str
    observed_at: datetime
    cards: tuple[Card, ...]
    cpu_milli: int
    ram: int
    isolation: str  # reason code: "accounts_per_tenant" or "single_account"
    notes: tuple[str, ...] = ()
    slicing: Slicing | None = None
    resizing: Resizing = Resizing.NONE


@dataclass(frozen=True, slots=True)
class Sample:
    """One second of one card or of one claim on one card. Shares in per mille of the card, memory in bytes; None is "no data", never zero."""

    subject: str  # "card:<uuid>" or "run:<uid>:<card uuid>"
    at: datetime
    compute_used: int | None = None
    compute_limit: int | None = None  # share now: guarantee and what is lent
    memory_used: int | None = None
    memory_limit: int | None = None
    throttled_ms: int | None = None  # milliseconds of waiting added by the limiter in this second, over all processes
    denied_bytes: int | None = None  # bytes refused since the claim was made
    uncounted_bytes: int | None = None  # the driver sees them, the ledger does not
    borrowed: int | None = None
    temperature: int | None = None  # °C
    power: int | None = None  # W
    bypass: Mapping[str, Any] | None = None  # what goes around the limits now, as evidence; no figure, so not kept


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a run's output from `offset`; `next` is where to go on; `eof` when the run has ended and all was read."""

    text: str
    offset: int
    next: int
    eof: bool
