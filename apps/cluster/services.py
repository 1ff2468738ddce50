"""Makes the cluster driver that the settings name, and keeps the inventory mirror."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils.module_loading import import_string

from apps.cluster.diagnosis import Diagnosis, Report
from apps.cluster.models import Gpu, Health, Site
from apps.cluster.protocol import Cluster, Comparer, Diagnoser, Terminals
from apps.cluster.specs import Card, Inventory, Slicing
from apps.core import bells, clock


def connect() -> Cluster:
    """A new cluster by TESSERA_DRIVER, not started: the controller's. A dotted path names a driver from elsewhere (tests)."""
    driver = settings.CLUSTER_DRIVER
    if driver == "local":
        return _local()
    if driver == "kubernetes":
        return _kubernetes()
    if "." in driver:
        made: Cluster = import_string(driver)()
        return made
    raise ImproperlyConfigured(f"TESSERA_DRIVER is “{driver}”; known are “local” and “kubernetes”")


def _local() -> Cluster:
    from apps.cluster.drivers.local import LocalCluster

    return LocalCluster(
        settings.STATE_DIR,
        settings.AGENT_SOCKET,
        settings.NOTEBOOK_ENVIRONMENTS,
        first_account=settings.FIRST_ACCOUNT,
    )


def _kubernetes() -> Cluster:
    from apps.cluster.drivers.kubernetes import KubernetesCluster
    from apps.cluster.drivers.kubernetes.api import Connection
    from apps.cluster.drivers.kubernetes.settings import Rules

    chosen: dict[str, Any] = settings.KUBERNETES
    rules = ("portal", "images", "pull_policy", "pull_secrets", "storage_class", "tenant_role", "ingress_cidrs")
    return KubernetesCluster(
        Connection(kubeconfig=chosen["kubeconfig"], context=chosen["context"]),
        rules=Rules(**{name: chosen[name] for name in rules}),
        adapter=chosen["slices"],
        reach=chosen["reach"],
        agent_token_file=chosen["agent_token_file"],
    )


@lru_cache(maxsize=1)
def reader() -> Cluster:
    """One per process, never started: only for logs, dial, get and inventory."""
    return connect()


def comparer() -> Comparer | None:
    """None where the driver's own records are all that there is."""
    made = getattr(reader(), "comparer", None)
    return made() if made is not None else None


def diagnose() -> Diagnosis | None:
    """One look at the cluster itself. None where the driver has none. A cluster that is away is a finding, no error."""
    made = getattr(reader(), "diagnoser", None)
    if made is None:
        return None
    diagnoser: Diagnoser = made()
    known = Health.objects.filter(id=1).first()
    told = Report(known.told_at, known.content) if known is not None else None
    return Diagnosis(settings.CLUSTER_DRIVER, clock.now(), async_to_sync(diagnoser.findings)(told))


def keep_health(content: dict[str, Any]) -> None:
    """Of the controller's driver. Rings no bell: it is read when somebody asks."""
    Health.objects.update_or_create(id=1, defaults={"content": content, "told_at": clock.now()})


def terminals() -> Terminals | None:
    """None where the driver offers none."""
    found = reader()
    return found if isinstance(found, Terminals) else None


_AT_ONCE: Final = 50  # cards in one transaction, of some 10 ms


class Mirror:
    """Keeps the mirror like what the driver says. It remembers what it wrote, so that of thousands of cards only those that changed cost
    anything; nobody else writes them while it lives, and after `forget` it looks all the same."""

    def __init__(self) -> None:
        self._written: dict[str, Card] | None = None
        self._untold = False  # something was written of which no bell has told

    def forget(self) -> None:
        self._written = None

    def show(self, inventory: Inventory) -> bool:
        """Returns whether anything but the time of observation changed; then the bell `cluster` rings."""
        seen = {card.uuid: card for card in inventory.cards}
        known, self._written = self._written, None  # until it is committed
        gone, new = _changes(seen, _stored(seen) if known is None else known)
        self._untold = self._untold or bool(gone or new)
        _write(new)
        with transaction.atomic():
            if gone:
                Gpu.objects.filter(uuid__in=gone).delete()
            changed = _mirror_site(inventory) or self._untold
            if changed:
                bells.ring("cluster")
        self._written, self._untold = seen, False
        return changed


def mirror_inventory(inventory: Inventory) -> bool:
    """Once, by whoever knows nothing of what is there."""
    return Mirror().show(inventory)


def _changes(seen: Mapping[str, Card], known: Mapping[str, Card | None]) -> tuple[set[str], list[Card]]:
    """UUIDs that are gone, and cards that are new or another now. A card that is `known` as None is not as it was seen."""
    new = [card for uuid, card in seen.items() if card is not known.get(uuid) and card != known.get(uuid)]
    return known.keys() - seen.keys(), new


def _stored(seen: Mapping[str, Card]) -> dict[str, Card | None]:
    """What the mirror holds, told in cards of `seen`."""
    rows = Gpu.objects.in_bulk()
    return {
        uuid: seen[uuid] if uuid in seen and not _differs(row, _fields(seen[uuid])) else None
        for uuid, row in rows.items()
    }


def _write(cards: Sequence[Card]) -> None:
    """Some at a time: of thousands, others wait for the database's one writer meanwhile."""
    for first in range(0, len(cards), _AT_ONCE):
        made = [Gpu(uuid=card.uuid, **_fields(card)) for card in cards[first : first + _AT_ONCE]]
        fields = [field.name for field in Gpu._meta.fields if not field.primary_key]
        Gpu.objects.bulk_create(made, update_conflicts=True, unique_fields=["uuid"], update_fields=fields)


def _mirror_site(inventory: Inventory) -> bool:
    fields = {
        "driver": inventory.driver,
        "isolation": inventory.isolation,
        "notes": list(inventory.notes),
        "slicing": _plain(inventory.slicing) if inventory.slicing else {},
        "resizing": inventory.resizing.value,
        "cpu_milli": inventory.cpu_milli,
        "ram": inventory.ram,
    }
    known = Site.objects.filter(id=1).first()
    Site(id=1, observed_at=inventory.observed_at, **fields).save(
        force_insert=known is None, force_update=known is not None
    )
    return known is None or _differs(known, fields)


def _plain(slicing: Slicing) -> dict[str, Any]:
    """As the database gives it back, so that it is not taken for a change."""
    return {
        "adapter": slicing.adapter,
        "reason": slicing.reason,
        "evidence": dict(slicing.evidence),
        "cannot": list(slicing.cannot),
    }


def _fields(card: Card) -> dict[str, Any]:
    fields: dict[str, Any] = asdict(card)
    del fields["uuid"]
    return {**fields, "holders": list(fields["holders"])}


def _differs(row: Gpu | Site, fields: dict[str, Any]) -> bool:
    return any(getattr(row, name) != value for name, value in fields.items())
