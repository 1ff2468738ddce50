"""The topics that a page may subscribe to: what each shows, which bells concern it, who may read it.

Every read authorises anew: a right that was withdrawn ends with the next read (NotFound), not with the socket.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.http import QueryDict

from apps.audit.context import Actor
from apps.cluster import services as cluster
from apps.core import clock
from apps.core.errors import NotFound
from apps.dashboard import figures
from apps.dashboard.lists import Filters
from apps.dashboard.live import parts
from apps.dashboard.live.frames import Cursor, Frame, Part, parts_frame
from apps.telemetry import selectors as telemetry
from apps.tenants import selectors as tenants
from apps.workloads import selectors as workloads

SERIES_SECONDS = 600
_LATE_SECONDS = 10  # samples may be this old when they arrive
_LOG_TAIL = 64 * 1024  # bytes of output that a page begins with


class Topic(ABC):
    name: str
    bells: frozenset[str]  # of core.bells; "*" concerns every topic
    ticks = False  # nothing rings for it: read it every period

    @abstractmethod
    def read(self, actor: Actor, cursor: Cursor) -> tuple[Frame | None, Cursor]:
        """What is new since `cursor`. Raises NotFound where the actor may not, or no longer, see it."""


class PartsTopic(Topic):
    """Rendered parts of a page."""

    def __init__(self, name: str, bells: set[str]) -> None:
        self.name = name
        self.bells = frozenset(bells)

    @abstractmethod
    def parts(self, actor: Actor) -> Mapping[str, Part]: ...

    def read(self, actor: Actor, cursor: Cursor) -> tuple[Frame | None, Cursor]:
        return parts_frame(self.name, self.parts(actor), cursor, clock.now().timestamp())


class WorkloadTopic(PartsTopic):
    def __init__(self, workload_id: UUID) -> None:
        super().__init__(f"workload:{workload_id}", {f"workload:{workload_id}", "cluster", "samples"})
        self.workload_id = workload_id

    def parts(self, actor: Actor) -> Mapping[str, Part]:
        return parts.workload_parts(actor, workloads.get(actor, self.workload_id))


class HomeTopic(PartsTopic):
    """`slug` names one tenant, or is empty for all of the person's."""

    def __init__(self, slug: str, user_id: UUID, tenant_ids: frozenset[UUID]) -> None:
        super().__init__(f"home:{slug}", {f"user:{user_id}", "samples", *(f"tenant:{each}" for each in tenant_ids)})
        self.slug = slug

    def parts(self, actor: Actor) -> Mapping[str, Part]:
        tenant = tenants.runs_in(actor).filter(slug=self.slug).first() if self.slug else None
        return parts.home_parts(actor, tenant)


class ListTopic(PartsTopic):
    def __init__(self, scope: str, query: str, bells: set[str]) -> None:
        super().__init__(f"list:{scope}?{query}", {"samples", *bells})
        self.scope = scope
        self.filters = Filters.of(QueryDict(query))

    def parts(self, actor: Actor) -> Mapping[str, Part]:
        return parts.list_parts(actor, self.scope, self.filters)


class TenantTopic(PartsTopic):
    def __init__(self, tenant_id: UUID) -> None:
        super().__init__(f"tenant:{tenant_id}", {f"tenant:{tenant_id}", "samples"})
        self.tenant_id = tenant_id

    def parts(self, actor: Actor) -> Mapping[str, Part]:
        return parts.tenant_parts(actor, tenants.get(actor, self.tenant_id))


class ClusterTopic(PartsTopic):
    def __init__(self) -> None:
        super().__init__("cluster:", {"cluster", "samples"})

    def parts(self, actor: Actor) -> Mapping[str, Part]:
        return parts.cluster_parts(actor)


class SeriesTopic(Topic):
    """The charts of one workload. `seq` is the newest second that was sent."""

    def __init__(self, workload_id: UUID) -> None:
        self.name = f"series:{workload_id}"
        self.bells = frozenset({"samples", f"workload:{workload_id}"})
        self.workload_id = workload_id

    def read(self, actor: Actor, cursor: Cursor) -> tuple[Frame | None, Cursor]:
        workload = workloads.get(actor, self.workload_id)
        subjects = telemetry.subjects_of(workload)
        columns = []
        for index, (run, card) in enumerate(zip(subjects.runs, subjects.cards, strict=True)):
            columns.append((f"{index}.", figures.own(self._series(run, cursor))))
            columns.append((f"{index}.", figures.card(self._series(card, cursor))))
        aligned = figures.align(columns)
        now = clock.now().timestamp()
        newest = aligned["at"][-1] if aligned["at"] else None
        if cursor.seq is None:
            seq = newest or int(now) - _LATE_SECONDS
            return Frame(self.name, seq, now, snapshot={"columns": aligned}), Cursor(seq)
        if newest is None or newest <= cursor.seq:
            return None, cursor
        return Frame(self.name, newest, now, patch={"columns": aligned}, before=cursor.seq), Cursor(newest)

    def _series(self, subject: str, cursor: Cursor) -> dict[str, Any]:
        return telemetry.series(subject, seconds=SERIES_SECONDS, step=1, since=cursor.seq)


class LogsTopic(Topic):
    """The output of a workload's latest run. `seq` is the offset in bytes up to which it was sent."""

    ticks = True

    def __init__(self, workload_id: UUID) -> None:
        self.name = f"logs:{workload_id}"
        self.bells = frozenset({f"workload:{workload_id}"})
        self.workload_id = workload_id

    def read(self, actor: Actor, cursor: Cursor) -> tuple[Frame | None, Cursor]:
        workload = workloads.get(actor, self.workload_id)
        first = cursor.seq is None
        offset = -_LOG_TAIL if cursor.seq is None else cursor.seq
        try:
            chunk = async_to_sync(cluster.reader().logs)(workload.uid, offset=offset)
        except NotFound:
            return None, cursor  # it has not begun to write
        now = clock.now().timestamp()
        if first or chunk.offset != cursor.seq:  # a new run begins a new output
            return Frame(self.name, chunk.next, now, snapshot={"text": chunk.text}), Cursor(chunk.next)
        if chunk.next == cursor.seq:
            return None, cursor
        return Frame(self.name, chunk.next, now, patch={"text": chunk.text}, before=cursor.seq), Cursor(chunk.next)


def parse(name: str, actor: Actor) -> Topic:
    """The topic that a browser named. Raises NotFound for what there is not; what the actor may see is decided when it is read."""
    kind, _colon, rest = name.partition(":")
    try:
        return _MAKERS[kind](rest, actor)
    except (KeyError, ValueError) as error:
        raise NotFound("There is no such topic.") from error


def _home(slug: str, actor: Actor) -> Topic:
    assert actor.user_id is not None, "pages are people's"
    return HomeTopic(slug, actor.user_id, frozenset(tenants.visible_to(actor).order_by().values_list("id", flat=True)))


def _list(rest: str, actor: Actor) -> Topic:
    scope, _mark, query = rest.partition("?")
    if scope not in ("mine", "all"):
        raise NotFound("There is no such list.")
    bells = {f"user:{actor.user_id}"}
    if scope == "all":
        bells |= {f"tenant:{each}" for each in tenants.visible_to(actor).order_by().values_list("id", flat=True)}
    return ListTopic(scope, query, bells)


def _cluster(rest: str, _actor: Actor) -> Topic:
    if rest:
        raise NotFound("There is no such topic.")
    return ClusterTopic()


_MAKERS: dict[str, Callable[[str, Actor], Topic]] = {
    "workload": lambda rest, _actor: WorkloadTopic(UUID(rest)),
    "series": lambda rest, _actor: SeriesTopic(UUID(rest)),
    "logs": lambda rest, _actor: LogsTopic(UUID(rest)),
    "tenant": lambda rest, _actor: TenantTopic(UUID(rest)),
    "home": _home,
    "list": _list,
    "cluster": _cluster,
}
