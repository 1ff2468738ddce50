"""Whether the API server answers, and how the controller's watches of it are."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.diagnosis import Area, Finding, Level, Report
from apps.cluster.drivers.kubernetes.diagnosis.looking import Seen

NEEDED = (1, 36)  # from here on parts of cards can be claimed without a switch
FRESH = timedelta(seconds=30)  # three times the pause between the controller's reports


def version(seen: Seen) -> list[Finding]:
    evidence = {"version": seen.version, "took_milliseconds": round(seen.took * 1000), "needed": "1.36"}
    known = numbers(seen.version)
    if known is not None and known < NEEDED:
        return [Finding(Area.SERVER, "server_old", Level.ATTENTION, evidence, "kubectl version")]
    return [Finding(Area.SERVER, "server_answers", Level.GOOD, evidence)]


def numbers(text: str) -> tuple[int, int] | None:
    """Major and minor of "v1.36.3+k3s1"."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def current(told: Report | None, now: datetime) -> Mapping[str, Any] | None:
    """What the controller says of itself; None where it is too old to be believed."""
    return told.content if told is not None and told.content and now - told.told_at <= FRESH else None


def watches(told: Report | None, now: datetime) -> list[Finding]:
    known = current(told, now)
    if known is None:
        since = told.told_at.replace(microsecond=0).isoformat() if told is not None else "—"
        return [Finding(Area.WATCHES, "controller_silent", Level.UNKNOWN, {"since": since})]
    return [_watch(one) for one in known.get("watches") or ()]


def _watch(one: Mapping[str, Any]) -> Finding:
    evidence = {**one, "staleness_seconds": round(one["staleness_seconds"])}
    if not one["served"]:
        return Finding(Area.WATCHES, "watch_not_served", Level.ATTENTION, evidence)
    if not one["fresh"]:
        return Finding(Area.WATCHES, "watch_stale", Level.BAD, evidence)
    return Finding(Area.WATCHES, "watch_fresh", Level.GOOD, evidence)


def requests(told: Report | None, now: datetime) -> list[Finding]:
    """Of the controller's, whether the API server has turned some away for being busy."""
    known = current(told, now)
    if known is None:
        return []  # said once, with the watches
    evidence = {"requests": known["requests"], "refused": known["refused"]}
    if known["refused"]:
        return [Finding(Area.LIMITS, "requests_refused", Level.ATTENTION, evidence)]
    return [Finding(Area.LIMITS, "requests_served", Level.GOOD, evidence)]
