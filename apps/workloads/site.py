"""What the machines and cards could never hold, by the inventory mirror."""

from dataclasses import replace

from django.db.models import Count

from apps.cluster import selectors as cluster
from apps.core.share import GpuShare, Resources
from apps.quotas.admission import Decision, Kind


def site_refusal(resources: Resources) -> Decision | None:
    """A refusal where no machine or card could ever hold it, by the mirror. None also where nobody has looked yet: unknown refuses nothing.

    CPU refuses nothing either: more cores than there are only make it slower.
    """
    site = cluster.site()
    if site is None:
        return None
    if resources.ram > site.ram:
        evidence = {"asked_bytes": resources.ram, "largest_bytes": site.ram}
        return Decision(Kind.REFUSE, "never_fits_machine", evidence, replace(resources, ram=site.ram))
    if resources.gpu is None:
        return None
    if _some_machine_could(resources.gpu):
        return None
    room = cluster.room(
        resources.gpu
    )  # reads every card: thousands, in a large cluster, so only to say what is the nearest
    if room.ever:
        return None
    nearest = replace(resources, gpu=room.largest_ever) if room.largest_ever else None
    return Decision(Kind.REFUSE, "never_fits_card" if nearest else "no_cards", room.evidence, nearest)


def _some_machine_could(share: GpuShare) -> bool:
    """Were it empty. In the database, since it is asked for each request while others wait for the quota's lock."""
    cards = cluster.gpus().filter(healthy=True, memory__gte=share.memory).order_by()
    if share.count == 1:
        return cards.exists()
    return cards.values("node").annotate(cards=Count("uuid")).filter(cards__gte=share.count).exists()
