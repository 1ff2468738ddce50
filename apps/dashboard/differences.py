"""Where the ledger and the cluster do not agree, in words: what each difference means, and what each repair would do exactly.

Only what the portal can do safely is offered. What a controller sets right by itself within seconds is shown, and left to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import User
from apps.cluster import services as cluster
from apps.cluster.differences import Difference, Kind, Repair, Row
from apps.cluster.protocol import Comparer
from apps.cluster.specs import RunSpec
from apps.core.units import format_bytes, format_permille
from apps.tenants.models import Tenant
from apps.workloads import books
from apps.workloads.models import Workload

_MEANINGS = {
    Kind.ORPHAN_POD: (
        gettext_lazy("Runs without a row"),
        gettext_lazy("It holds its share of the card, and no quota is charged for it. Nobody can see or stop it here."),
    ),
    Kind.PHANTOM_ROW: (
        gettext_lazy("Charged, and nothing is there"),
        gettext_lazy("Its tenant's quota is charged for something that the cluster does not run."),
    ),
    Kind.ENDED_ROW_RUNS: (
        gettext_lazy("Ended here, runs there"),
        gettext_lazy("For the portal it has ended and is charged no more; its pod still holds its share."),
    ),
    Kind.OTHER_RUN: (
        gettext_lazy("Another run than expected"),
        gettext_lazy("The pod is of another start of the same experiment than the row."),
    ),
    Kind.OTHER_SHARE: (
        gettext_lazy("Another share than charged"),
        gettext_lazy("What the scheduler has given is not what the quota is charged for."),
    ),
    Kind.NO_CLAIM: (
        gettext_lazy("Runs without its claim"),
        gettext_lazy("The quota is charged for a share, and no part of a card is allocated to its pod."),
    ),
    Kind.ORPHAN_CLAIM: (
        gettext_lazy("Holds a card for nobody"),
        gettext_lazy("A part of a card is allocated to a claim whose pod is no more, so nobody else can have it."),
    ),
    Kind.FOREIGN_CLAIM: (
        gettext_lazy("Held by somebody else"),
        gettext_lazy(
            "Another user of this cluster holds a part of a card. That may be in order; it is not this portal's to change."
        ),
    ),
    Kind.LEFT_OVER: (
        gettext_lazy("Left behind"),
        gettext_lazy(
            "A secret or a claim whose pod is no more. It holds no card, and is removed after a while by itself."
        ),
    ),
}
# What holds cards or quota wrongly comes first.
_ORDER = list(_MEANINGS)
_REMOVABLE = {Kind.ORPHAN_POD, Kind.ENDED_ROW_RUNS, Kind.OTHER_RUN, Kind.ORPHAN_CLAIM, Kind.LEFT_OVER}


@dataclass(frozen=True, slots=True)
class Choice:
    repair: Repair
    label: str
    effects: Sequence[str]  # in order, exactly

    @property
    def is_dangerous(self) -> bool:
        return self.repair is Repair.REMOVE


@dataclass(frozen=True, slots=True)
class DifferenceView:
    difference: Difference
    key: str  # names it in addresses, for as long as it is the same
    title: str
    meaning: str
    name: str
    link: str  # of the workload's page
    facts: Sequence[tuple[str, str]]
    choices: Sequence[Choice]
    instead: str  # who sets it right, where nothing is offered

    def choice(self, repair: str) -> Choice | None:
        return next((one for one in self.choices if one.repair.value == repair), None)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at both books, at one moment."""

    comparer: Comparer
    seen: Any
    views: Sequence[DifferenceView]

    def view(self, key: str) -> DifferenceView | None:
        return next((one for one in self.views if one.key == key), None)

    def spec(self, view: DifferenceView) -> RunSpec | None:
        return self.comparer.spec(self.seen, view.difference.uid)

    def remove(self, view: DifferenceView) -> None:
        async_to_sync(self.comparer.remove)(self.seen, view.difference)


def look() -> Look | None:
    """None where the driver has nothing to compare with. May raise Unavailable.

    The cluster is read before the ledger: a run that ends in between is seen as one that is charged and gone, never as an orphan.
    """
    comparer = cluster.comparer()
    if comparer is None:
        return None
    seen = async_to_sync(comparer.look)()
    rows = {row.uid: row for row in books.rows(comparer.workloads(seen))}
    found = comparer.differences(rows.values(), seen)
    pages = _pages(found)
    views = [_view(one, rows.get(one.uid), pages, comparer.spec(seen, one.uid) if one.uid else None) for one in found]
    return Look(comparer, seen, sorted(views, key=lambda view: _ORDER.index(view.difference.kind)))


def _pages(found: Sequence[Difference]) -> set[str]:
    """Workloads that have a page."""
    ids = [one.uid for one in found if len(one.uid) == 36]
    return {str(known) for known in Workload.objects.filter(id__in=ids, deleted_at=None).values_list("id", flat=True)}


def _view(one: Difference, row: Row | None, pages: set[str], spec: RunSpec | None) -> DifferenceView:
    title, meaning = _MEANINGS[one.kind]
    name = str(one.evidence.get("name") or (row.name if row else "") or (spec.name if spec else ""))
    choices = _choices(one, row, name, spec)
    return DifferenceView(
        difference=one,
        key=sha256("|".join((one.kind, one.uid, *one.objects)).encode()).hexdigest()[:20],
        title=str(title),
        meaning=str(meaning),
        name=name,
        link=reverse("experiment", args=[UUID(one.uid)]) if one.uid in pages else "",
        facts=_facts(one, spec),
        choices=choices,
        instead="" if choices else _instead(one),
    )


def _facts(one: Difference, spec: RunSpec | None) -> list[tuple[str, str]]:
    told: Mapping[str, Any] = one.evidence
    facts: list[tuple[str, str]] = []
    if spec is not None and one.kind is Kind.ORPHAN_POD:
        facts.append((_("Owner"), spec.labels.get("owner") or spec.owner))
        facts.append((_("Tenant"), spec.labels.get("tenant") or spec.tenant))
    gpu = spec.resources.gpu if spec is not None and one.kind is Kind.ORPHAN_POD else None
    if gpu is not None:
        facts.append((_("Share"), _share(gpu.count, gpu.compute, gpu.memory)))
    elif told.get("asked_gpus"):
        facts.append((_("Charged"), _share(told["asked_gpus"], told["compute_permille"], told["memory_bytes"])))
    given = told.get("given") or ()
    facts.extend((_("Given"), f"{p['card']}: {_share(1, p['compute'] or 1000, p['memory'] or 0)}") for p in given)
    if "run" in told:
        facts.append((_("Run"), str(told["run"])))
    if "pod_run" in told:
        facts.append((_("Run of the pod"), str(told["pod_run"])))
    if told.get("cards"):
        facts.append((_("Cards"), ", ".join(told["cards"])))
    return facts


def _share(count: int, compute: int, memory: int) -> str:
    each = f"{format_permille(compute)}, {format_bytes(memory)}"
    return f"{count} × {each}" if count > 1 else each


def _choices(one: Difference, row: Row | None, name: str, spec: RunSpec | None) -> list[Choice]:
    choices = []
    if one.kind is Kind.ORPHAN_POD and spec is not None:
        choices.append(Choice(Repair.ADOPT, _("Adopt into the portal"), _adoption(spec)))
    if one.kind is Kind.PHANTOM_ROW and row is not None and row.ended:
        choices.append(Choice(Repair.REPAIR, _("Settle the ledger"), _settlement(one, name)))
    if one.kind in _REMOVABLE:
        choices.append(Choice(Repair.REMOVE, _("Remove from the cluster"), _removal(one)))
    return choices


def _adoption(spec: RunSpec) -> list[str]:
    owner, tenant = spec.labels.get("owner") or spec.owner, spec.labels.get("tenant") or spec.tenant
    known = {"name": spec.name, "owner": owner, "tenant": tenant, "run": spec.run}
    effects = [_("“%(name)s” gets a row, at run %(run)d, made from what its pod says.") % known]
    if User.objects.filter(username=owner).exists():
        effects.append(_("It belongs to %(owner)s, who sees it and can open and stop it.") % known)
    else:
        effects.append(_("%(owner)s is not known here: an account of that name is made, without a password.") % known)
    if Tenant.objects.filter(slug=tenant).exists():
        effects.append(_("Its share is charged to %(tenant)s, even where the quota is then exceeded.") % known)
    else:
        effects.append(_("There is no tenant %(tenant)s: it is made, without members and without quota.") % known)
    effects.append(_("Nothing is restarted."))
    return effects


def _settlement(one: Difference, name: str) -> list[str]:
    known = {"name": name or one.uid, "run": one.evidence.get("run", 0)}
    return [
        _("What is charged for run %(run)d of “%(name)s” is given back to the quota.") % known,
        _("Whoever waits for that quota may start."),
        _("Nothing in the cluster is touched."),
    ]


def _removal(one: Difference) -> list[str]:
    effects = [_("%(object)s is deleted.") % {"object": named} for named in one.objects]
    if one.objects and one.objects[0].startswith("Pod "):
        return [
            *effects,
            _(
                "Its programs are asked to end, and are ended by force when their grace is over: what is not saved is lost."
            ),
            _("The controller then deletes its secret and its claim; its part of the card is free."),
            _("The home folder stays."),
        ]
    if one.kind is Kind.ORPHAN_CLAIM:
        return [*effects, _("Its part of the card is free when the cluster has let go of it.")]
    return [*effects, _("Nothing that runs uses it.")]


def _instead(one: Difference) -> str:
    if one.kind is Kind.PHANTOM_ROW:
        return _(
            "It has not ended, so the controller looks after it: it is just being made, or its share is given back soon."
        )
    if one.kind is Kind.ORPHAN_POD:
        return _("What it was made from cannot be read.")
    if one.kind in (Kind.OTHER_SHARE, Kind.NO_CLAIM):
        return _("Stop it on its page; started again, it gets what is charged.")
    return ""
