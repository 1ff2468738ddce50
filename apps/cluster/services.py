"""Makes the cluster driver that the settings name, and keeps the inventory mirror."""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils.module_loading import import_string

from apps.cluster.models import Gpu, Site
from apps.cluster.protocol import Cluster
from apps.cluster.specs import Card, Inventory
from apps.core import bells


def connect() -> Cluster:
    """A new cluster by TESSERA_DRIVER, not started: the controller's. A dotted path names a driver from elsewhere (tests)."""
    driver = settings.CLUSTER_DRIVER
    if driver == "local":
        from apps.cluster.drivers.local import LocalCluster

        local: Cluster = LocalCluster(
            settings.STATE_DIR,
            settings.AGENT_SOCKET,
            settings.NOTEBOOK_ENVIRONMENTS,
            first_account=settings.FIRST_ACCOUNT,
        )
        return local
    if "." in driver:
        made: Cluster = import_string(driver)()
        return made
    raise ImproperlyConfigured(f"TESSERA_DRIVER is “{driver}”; known is “local”")


@lru_cache(maxsize=1)
def reader() -> Cluster:
    """One per process, never started: only for logs, dial, get and inventory."""
    return connect()


@transaction.atomic
def mirror_inventory(inventory: Inventory) -> bool:
    """Rewrite the mirror. Returns whether anything but the time of observation changed; then the bell `cluster` rings."""
    changed = _mirror_site(inventory)
    known = Gpu.objects.in_bulk()
    seen = {card.uuid for card in inventory.cards}
    gone = [uuid for uuid in known if uuid not in seen]
    if gone:
        Gpu.objects.filter(uuid__in=gone).delete()
    changed |= bool(gone)
    for card in inventory.cards:
        changed |= _mirror_card(card, known.get(card.uuid), inventory)
    Gpu.objects.filter(uuid__in=seen).update(observed_at=inventory.observed_at)
    if changed:
        bells.ring("cluster")
    return changed


def _mirror_site(inventory: Inventory) -> bool:
    fields = {
        "driver": inventory.driver,
        "isolation": inventory.isolation,
        "notes": list(inventory.notes),
        "cpu_milli": inventory.cpu_milli,
        "ram": inventory.ram,
    }
    site = Site.objects.filter(id=1).first()
    changed = site is None or any(getattr(site, name) != value for name, value in fields.items())
    Site.objects.update_or_create(id=1, defaults={**fields, "observed_at": inventory.observed_at})
    return changed


def _mirror_card(card: Card, known: Gpu | None, inventory: Inventory) -> bool:
    fields: dict[str, Any] = asdict(card)
    uuid = fields.pop("uuid")
    fields["attributes"] = dict(card.attributes)
    fields["holders"] = [asdict(holder) for holder in card.holders]
    if known is not None and all(getattr(known, name) == value for name, value in fields.items()):
        return False
    Gpu.objects.update_or_create(uuid=uuid, defaults={**fields, "observed_at": inventory.observed_at})
    return True
