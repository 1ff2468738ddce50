"""How cards can be given out here: the way that was chosen, the API for claims, the switches that it needs, and what was seen to work."""

from collections.abc import Sequence

from apps.cluster.diagnosis import Area, Finding, Level
from apps.cluster.drivers.kubernetes import cards, names
from apps.cluster.drivers.kubernetes.adapters import Choice, Offers, choose
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.diagnosis.looking import FEATURES, Hidden, Sample, Seen, rows
from apps.cluster.drivers.kubernetes.objects import Manifest, name_of

# Without the first there are no claims, without the second no parts of cards, without the third nothing keeps claims off ill cards.
_NEEDED = ("DynamicResourceAllocation", "DRAConsumableCapacity", "DRADeviceTaints")
_LESS = ("slices_whole_only", "slices_device_plugin", "slices_none")  # ways that cannot do all
_KEPT = "DRAConsumableCapacity"  # whose work can be seen without asking for the switch


def judged(seen: Seen, wanted: str) -> list[Finding]:
    choice = _choice(seen, wanted)
    found = [*_way(choice), *_api(seen), *(_feature(seen, name) for name in _NEEDED)]
    by_claims = isinstance(choice, Choice) and isinstance(choice.adapter, Dra)
    return [*found, *_offered(seen)] if by_claims else found


def _choice(seen: Seen, wanted: str) -> Choice | Hidden:
    """As a started driver would choose."""
    hidden = next((one for one in (seen.dra, seen.classes, seen.slices, seen.nodes) if isinstance(one, Hidden)), None)
    if hidden is not None:
        return hidden
    classes = [name_of(one) for one in rows(seen.classes)]
    return choose(Offers("v1" in rows(seen.dra), classes, rows(seen.slices), rows(seen.nodes)), wanted)


def _way(choice: Choice | Hidden) -> list[Finding]:
    if isinstance(choice, Hidden):
        return [Finding(Area.CARDS, "slices_unknown", Level.UNKNOWN, {"problem": choice.problem})]
    level = Level.ATTENTION if choice.reason in _LESS else Level.GOOD
    return [Finding(Area.CARDS, choice.reason, level, {**choice.evidence, "adapter": choice.adapter.name})]


def _api(seen: Seen) -> list[Finding]:
    if isinstance(seen.dra, Hidden):
        return [Finding(Area.CARDS, "dra_unknown", Level.UNKNOWN, {"problem": seen.dra.problem}, _resources())]
    evidence = {"versions": list(seen.dra)}
    if "v1" in seen.dra:
        return [Finding(Area.CARDS, "dra_served", Level.GOOD, evidence)]
    return [Finding(Area.CARDS, "dra_not_served", Level.ATTENTION, evidence, _resources())]


def _resources() -> str:
    return "kubectl api-resources --api-group=resource.k8s.io"


# --- Switches ------------------------------------------------------------------------------------------------------------
def _feature(seen: Seen, name: str) -> Finding:
    """By the API server's metrics; else by what it has kept of our slices."""
    told = _switch(rows(seen.metrics), name)
    if told is not None:
        level = Level.GOOD if told.value else Level.BAD
        evidence = {"feature": name, "stage": told.labels.get("stage") or "GA"}
        return Finding(Area.CARDS, "feature_on" if told.value else "feature_off", level, evidence)
    devices = _devices(rows(seen.slices))
    if name == _KEPT and devices and cards.gives_parts(rows(seen.slices)):
        return Finding(Area.CARDS, "feature_seen", Level.GOOD, {"feature": name, "cards": devices})
    problem = seen.metrics.problem if isinstance(seen.metrics, Hidden) else f"/metrics: {name} ?"
    command = f"kubectl get --raw /metrics | grep '{FEATURES}.*{name}'"
    return Finding(Area.CARDS, "feature_unknown", Level.UNKNOWN, {"feature": name, "problem": problem}, command)


def _switch(samples: Sequence[Sample], name: str) -> Sample | None:
    return next((one for one in samples if one.name == FEATURES and one.labels.get("name") == name), None)


# --- What was seen to work -----------------------------------------------------------------------------------------------
def _offered(seen: Seen) -> list[Finding]:
    slices = rows(seen.slices)
    devices = _devices(slices)
    if not devices:
        command = f"kubectl logs -n {names.AGENT_NAMESPACE} daemonset/tessera-node-agent"
        return [Finding(Area.CARDS, "cards_not_offered", Level.BAD, {}, command)]
    evidence = {"cards": devices, "slices": len(slices)}
    return [Finding(Area.CARDS, "cards_offered", Level.GOOD, evidence), _given(seen)]


def _given(seen: Seen) -> Finding:
    """That the scheduler gives out parts can only be seen by its having done so."""
    if isinstance(seen.claims, Hidden):
        return Finding(Area.CARDS, "parts_unknown", Level.UNKNOWN, {"problem": seen.claims.problem})
    parts = [part for claim in seen.claims for part in cards.parts_of(claim) if part.compute is not None]
    if parts:
        return Finding(Area.CARDS, "parts_given", Level.GOOD, {"parts": len(parts)})
    return Finding(Area.CARDS, "parts_not_given_yet", Level.UNKNOWN)


def _devices(slices: Sequence[Manifest]) -> int:
    return sum(len(cards.cards_of(one)) for one in slices)
