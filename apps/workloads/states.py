"""The life of a workload as a table of (phase, event) -> phase. Pure; docs/development/states.md is rendered from it by a test.

Phases are the values of `models.Phase`. What is not in the table cannot happen: `transition` raises `Impossible`.
"""

from enum import StrEnum


class Event(StrEnum):
    QUEUE = "queue"  # asked for, or started again
    ADMIT = "admit"  # the quota has room; the claim is written in the same transaction
    REFUSE = "refuse"  # while it waited, its quota became too small for it
    SEEN_WAITING = "seen waiting"  # the cluster has accepted it and has no room yet
    SEEN_PREPARING = "seen preparing"
    SEEN_STARTING = "seen starting"  # the program runs; it does not answer, or not yet through the gateway
    REACHED = "reached"  # it answered through the gateway
    STOP = "stop"  # somebody, or its time limit, wants it to end
    ENDED = "ended"  # observed gone, in order, without our asking
    BROKE = "broke"  # observed gone, or not startable, and something went wrong
    GONE = "gone"  # observed gone after we asked


class Impossible(Exception):
    """The event has no meaning in this phase."""


_LIVE = ("admitted", "scheduling", "preparing", "starting", "ready")
_SEEN = {Event.SEEN_WAITING: "scheduling", Event.SEEN_PREPARING: "preparing", Event.SEEN_STARTING: "starting"}


def _table() -> dict[tuple[str, Event], str]:
    table: dict[tuple[str, Event], str] = {
        ("draft", Event.QUEUE): "queued",
        ("queued", Event.QUEUE): "queued",  # still waits, perhaps for something else
        ("queued", Event.ADMIT): "admitted",
        ("queued", Event.REFUSE): "failed",
        ("queued", Event.STOP): "stopped",
        ("stopped", Event.QUEUE): "queued",
        ("failed", Event.QUEUE): "queued",
        ("stopping", Event.GONE): "stopped",
        ("stopping", Event.ENDED): "stopped",
        ("stopping", Event.BROKE): "stopped",  # it was to end anyhow
        ("stopping", Event.STOP): "stopping",
    }
    for phase in _LIVE:
        table[phase, Event.STOP] = "stopping"
        table[phase, Event.ENDED] = "stopped"
        table[phase, Event.BROKE] = "failed"
        table[phase, Event.REACHED] = "ready"
        for event, seen in _SEEN.items():
            # After a restart the driver may have to look again whether it answers: what was ready stays ready until it ends.
            table[phase, event] = "ready" if phase == "ready" else seen
    for event in (*_SEEN, Event.REACHED):
        table["stopping", event] = "stopping"
    return table


TABLE = _table()


def transition(phase: str, event: Event) -> str:
    try:
        return TABLE[str(phase), event]
    except KeyError:
        raise Impossible(f"“{event}” cannot happen to a workload that is {phase}") from None


def rendered() -> str:
    """The table in Markdown."""
    phases = ("draft", "queued", *_LIVE, "stopping", "stopped", "failed")
    head = "| | " + " | ".join(Event) + " |\n|---|" + "---|" * len(Event) + "\n"
    rows = (
        f"| **{phase}** | " + " | ".join(TABLE.get((phase, event), "·") for event in Event) + " |\n" for phase in phases
    )
    return head + "".join(rows)
