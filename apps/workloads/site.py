"""What the machines and cards could never hold, by the inventory mirror."""

from dataclasses import replace

from apps.cluster import selectors as cluster
from apps.core.share import Resources
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
    room = cluster.room(resources.gpu)
    if room.ever:
        return None
    nearest = replace(resources, gpu=room.largest_ever) if room.largest_ever else None
    return Decision(Kind.REFUSE, "never_fits_card" if nearest else "no_cards", room.evidence, nearest)
