"""May this request be admitted now? Pure arithmetic over numbers that the caller read under lock; no Django, no clock.

A request passes every node of the tenant tree from the tenant up to its root. It is *refused* where it exceeds what a node could
ever give, *admitted* where every node has room, and else *waits*, if there is a place left in the queue. Requests that wait hold
back later ones at the node that they wait for, so that a large request is not overtaken for ever by small ones; one that waits
for its owner's own limit holds back that owner only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from apps.core.share import MIB, Resources, cut_share

AMOUNTS = ("gpu_memory", "gpu_compute", "cpu_milli", "ram")
MIN_CPU = 100  # thousandths of a core; less is no useful proposal
MIN_RAM = 256 * MIB  # bytes


class Kind(StrEnum):
    ADMIT = "admit"
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is charged: bytes, per mille of a card, thousandths of a core, bytes; and one place among the running."""

    gpu_memory: int = 0
    gpu_compute: int = 0
    cpu_milli: int = 0
    ram: int = 0
    running: int = 0

    @classmethod
    def of(cls, resources: Resources) -> "Amounts":
        gpu = resources.gpu
        return cls(
            gpu.total_memory if gpu else 0, gpu.total_compute if gpu else 0, resources.cpu_milli, resources.ram, 1
        )

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(*(getattr(self, name) + getattr(other, name) for name in (*AMOUNTS, "running")))


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit at this node."""

    gpu_memory: int | None = None
    gpu_compute: int | None = None
    cpu_milli: int | None = None
    ram: int | None = None
    running: int | None = None
    running_per_user: int | None = None
    pending: int | None = None


NOTHING = Limits(gpu_memory=0, gpu_compute=0, cpu_milli=0, ram=0, running=0, running_per_user=0, pending=0)


@dataclass(frozen=True, slots=True)
class Node:
    """One tenant or department on the path, with what is held in it and below it."""

    id: str
    name: str
    limits: Limits
    used: Amounts = field(default_factory=Amounts)
    used_by_user: int = 0  # running workloads of the asking person here
    waiting: int = 0  # workloads that wait here
    held_back: bool = False  # an earlier request waits for this node
    user_held_back: bool = False  # an earlier request of this person waits for the person's own limit here
    has_quota: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` and `evidence` as in core.reasons; `nearest` is the same request cut down to what would be admitted now (or ever, where refused)."""

    kind: Kind
    reason: str
    evidence: dict[str, Any]
    nearest: Resources | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """One limit of one node against one request."""

    node: Node
    dimension: str
    asked: int
    used: int
    limit: int

    @property
    def free(self) -> int:
        return max(self.limit - self.used, 0)

    def evidence(self) -> dict[str, Any]:
        node = self.node
        numbers = {"asked": self.asked, "used": self.used, "limit": self.limit, "free": self.free}
        return {"node": node.id, "tenant": node.name, "dimension": self.dimension, **numbers}


def _lines(request: Resources, nodes: Iterable[Node]) -> Iterator[_Line]:
    asked = Amounts.of(request)
    for node in nodes:
        for dimension in (*AMOUNTS, "running"):
            limit = getattr(node.limits, dimension)
            if limit is not None and getattr(asked, dimension):
                yield _Line(node, dimension, getattr(asked, dimension), getattr(node.used, dimension), limit)
        if node.limits.running_per_user is not None:
            yield _Line(node, "running_per_user", 1, node.used_by_user, node.limits.running_per_user)


def decide(request: Resources, nodes: Sequence[Node], *, has_place: bool = False) -> Decision:
    """`nodes` from the tenant up to its root; the caller's locks keep them true until it has written the claim.

    `has_place`: the request waits already, so a full queue does not turn it away.
    """
    for node in nodes:
        if not node.has_quota:
            return Decision(Kind.REFUSE, "no_quota", {"node": node.id, "tenant": node.name})
    lines = list(_lines(request, nodes))
    never = next((line for line in lines if line.asked > line.limit), None)
    if never is not None:
        return Decision(Kind.REFUSE, "never_fits_quota", never.evidence(), _cut(request, lines, ever=True))
    ahead = next((node for node in nodes if node.held_back or node.user_held_back), None)
    short = next((line for line in lines if line.asked > line.free), None)
    if short is not None:
        nearest = None if ahead is not None else _cut(request, lines, ever=False)
        waits = Decision(Kind.WAIT, "waiting_quota", short.evidence(), nearest)
    elif ahead is not None:
        own = {"dimension": "running_per_user"} if ahead.user_held_back and not ahead.held_back else {}
        waits = Decision(Kind.WAIT, "waiting_turn", {"node": ahead.id, "tenant": ahead.name, **own})
    else:
        return Decision(Kind.ADMIT, "admitted", {"node": nodes[0].id, "tenant": nodes[0].name}, request)
    return waits if has_place else _place_in_queue(nodes, waits)


def decide_change(held: Amounts, request: Resources, nodes: Sequence[Node]) -> Decision:
    """May what holds `held` hold `request` in its place, at once or not at all? `nodes` count `held` among what is used.

    Only what grows is asked for: to become smaller is always allowed, also where a limit was lowered below its use. Growing is a later
    request than those that wait, and does not overtake them.
    """
    asked = Amounts.of(request)
    grown = [name for name in AMOUNTS if getattr(asked, name) > getattr(held, name)]
    lines = [
        _Line(node, name, getattr(asked, name), getattr(node.used, name) - getattr(held, name), limit)
        for node in nodes
        for name in grown
        if (limit := getattr(node.limits, name)) is not None
    ]
    short = next((line for line in lines if line.asked > line.free), None)
    if short is not None:
        return Decision(Kind.REFUSE, "resize_quota", short.evidence(), _cut(request, lines, ever=False))
    ahead = next((node for node in nodes if node.held_back), None)
    if grown and ahead is not None:
        return Decision(Kind.REFUSE, "resize_turn", {"node": ahead.id, "tenant": ahead.name})
    return Decision(Kind.ADMIT, "resize_fits", {}, request)


def _place_in_queue(nodes: Iterable[Node], waits: Decision) -> Decision:
    """`waits`, or a refusal where the queue of some node is full."""
    for node in nodes:
        if node.limits.pending is not None and node.waiting >= node.limits.pending:
            places = {"node": node.id, "tenant": node.name, "waiting": node.waiting, "places": node.limits.pending}
            return Decision(Kind.REFUSE, "queue_full", {**waits.evidence, **places}, waits.nearest)
    return waits


def _cut(request: Resources, lines: Iterable[_Line], *, ever: bool) -> Resources | None:
    """The request reduced to the room there is, now or `ever`; None where something cannot be reduced to anything useful."""
    room: dict[str, int] = {}
    for line in lines:
        room[line.dimension] = min(room.get(line.dimension, line.asked), line.limit if ever else line.free)
    cpu, ram = room.get("cpu_milli", request.cpu_milli), room.get("ram", request.ram)
    if min(room.get("running", 1), room.get("running_per_user", 1)) < 1 or cpu < MIN_CPU or ram < MIN_RAM:
        return None
    if request.gpu is None:
        return replace(request, cpu_milli=cpu, ram=ram)
    total = request.gpu
    share = cut_share(total, room.get("gpu_memory", total.total_memory), room.get("gpu_compute", total.total_compute))
    return None if share is None else Resources(share, cpu, ram)
