"""Filters, order and pages of lists of workloads. The address holds all of it, so a link shows a colleague the same."""

from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.workloads.models import ENDED, Phase, Workload

PAGE_ROWS = 50
_WAITING = (Phase.QUEUED, Phase.SCHEDULING)
_STATES: dict[str, Q] = {
    "active": ~Q(phase__in=ENDED),
    "waiting": Q(phase__in=_WAITING),
    "ready": Q(phase=Phase.READY),
    "stopped": Q(phase=Phase.STOPPED),
    "failed": Q(phase=Phase.FAILED),
}
_ORDERS = {
    "new": ("-created_at", "-id"),
    "name": ("name", "id"),
    "state": ("phase", "-phase_since", "id"),
    "share": ("-gpu_memory", "-gpu_compute", "id"),
    "owner": ("owner__username", "-created_at", "id"),
}


def states() -> list[tuple[str, str]]:
    return [
        ("", _("Every state")),
        ("active", _("Running or on the way")),
        ("waiting", _("Waiting")),
        ("ready", str(Phase.READY.label)),
        ("stopped", str(Phase.STOPPED.label)),
        ("failed", str(Phase.FAILED.label)),
    ]


def _known(word: str | None, words: Container[str]) -> str:
    return word if word and word in words else ""


@dataclass(frozen=True, slots=True)
class Filters:
    q: str = ""
    state: str = ""
    tenant: str = ""  # slug
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "Filters":
        """What is not understood is left out, never an error: addresses are typed and shortened by hand."""
        page = query.get("page", "1")
        return cls(
            q=query.get("q", "").strip()[:100],
            state=_known(query.get("state"), _STATES),
            tenant=query.get("tenant", "").strip()[:50],
            sort=_known(query.get("sort"), _ORDERS),
            page=int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
        )

    @property
    def active(self) -> bool:
        return bool(self.q or self.state or self.tenant)

    @property
    def order(self) -> str:
        return self.sort or "new"

    def link(self, **changes: Any) -> str:
        """The query string of the same list with `changes`."""
        changed = replace(self, **changes)
        plain = {key: value for key, value in asdict(changed).items() if value and not (key == "page" and value == 1)}
        return "?" + urlencode(plain)

    def apply(self, rows: QuerySet[Workload]) -> Page[Workload]:
        if self.q:
            rows = rows.filter(
                Q(name__icontains=self.q)
                | Q(owner__username__icontains=self.q)
                | Q(owner__display_name__icontains=self.q)
            )
        if self.state:
            rows = rows.filter(_STATES[self.state])
        if self.tenant:
            rows = rows.filter(tenant__slug=self.tenant)
        return Paginator(rows.order_by(*_ORDERS[self.order]), PAGE_ROWS).get_page(self.page)
