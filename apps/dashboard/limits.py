"""For operators: what keeps the limits on which nodes, and whose programs go around them now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.audit.context import Actor
from apps.cluster.models import Gpu
from apps.core.reasons import Explanation, explain
from apps.workloads import notices
from apps.workloads import selectors as workloads
from apps.workloads.models import Notice


@dataclass(frozen=True, slots=True)
class LimitsView:
    """One way, and the nodes that have it. `whole` is how whole GPUs are given out there."""

    nodes: str
    name: str
    why: Explanation
    whole: Explanation


def limits_of(gpus: Iterable[Gpu]) -> Sequence[LimitsView]:
    """Nothing of nodes whose agents do not tell."""
    by_way: dict[tuple[str, str, str], set[str]] = {}
    for gpu in gpus:
        told = gpu.attributes
        if told.get("limits"):
            way = (told["limits"], told.get("limits_reason", ""), told.get("whole_reason", ""))
            by_way.setdefault(way, set()).add(gpu.node)
    return [
        LimitsView(_nodes(nodes), _name(name), explain(reason), explain(whole))
        for (name, reason, whole), nodes in sorted(by_way.items())
    ]


def _nodes(nodes: set[str]) -> str:
    shown = ", ".join(sorted(nodes)[:3])
    return shown if len(nodes) <= 3 else _("%(some)s and %(more)d more") % {"some": shown, "more": len(nodes) - 3}


def _name(backend: str) -> str:
    return {
        "interposer": _("limiting library"),
        "cgroup-memory": _("driver's memory limits"),
    }.get(backend, backend)


@dataclass(frozen=True, slots=True)
class BypassView:
    label: str
    owner: str
    link: str
    why: Explanation
    notice: Notice


def bypasses(actor: Actor) -> Sequence[BypassView]:
    """Those of whatever the actor may see, the newest first."""
    rows = {
        row.id: row for row in workloads.visible_to(actor).filter(notices__code=notices.BYPASS, notices__ended_at=None)
    }
    found = notices.open_of(rows).filter(code=notices.BYPASS)
    return [
        BypassView(
            rows[notice.workload_id].name,
            str(rows[notice.workload_id].owner),
            reverse("experiment", args=[notice.workload_id]),
            explain(notice.code, notice.evidence),
            notice,
        )
        for notice in found
    ]
