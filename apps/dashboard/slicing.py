"""How a cluster cuts its cards, for its operator: which way, why that one, and what it cannot do."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.cluster.models import Site
from apps.core.reasons import Explanation, explain


@dataclass(frozen=True, slots=True)
class SlicingView:
    name: str
    why: Explanation
    cannot: Sequence[Explanation]
    resources: str  # of a device plugin, as the cluster calls them


def slicing_of(site: Site | None) -> SlicingView | None:
    """None where the driver knows one way only, or nobody has looked yet."""
    if site is None or not site.slicing:
        return None
    told = site.slicing
    evidence = told.get("evidence") or {}
    return SlicingView(
        name=_name(told["adapter"]),
        why=explain(told["reason"], evidence),
        cannot=[explain(code) for code in told.get("cannot") or () if code != told["reason"]],
        resources=", ".join(evidence.get("resources") or ()),
    )


def _name(adapter: str) -> str:
    return {
        "dra": _("Dynamic Resource Allocation"),
        "hami": "HAMi",
        "device-plugin": _("device plugin"),
    }.get(adapter, adapter)
