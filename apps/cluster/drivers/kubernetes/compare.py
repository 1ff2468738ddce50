"""Three views of who holds what, side by side: the portal's ledger, the objects of runs, the claims that the scheduler has allocated.

Where they differ, each difference has a name, evidence, and repairs with a preview of what they would do. Pure: nothing is done here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.differences import Difference, Kind, Option, Repair, Row
from apps.cluster.drivers.kubernetes import encoding, names
from apps.cluster.drivers.kubernetes.cards import parts_of
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    annotations,
    is_deleting,
    is_terminal,
    labels,
    made_at,
    meta,
    name_of,
    namespace_of,
    run_of,
    time,
    workload_of,
)
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.core.share import Resources

__all__ = ["Difference", "Kind", "Objects", "Option", "Repair", "Row", "compare"]


@dataclass(frozen=True, slots=True)
class Objects:
    pods: Sequence[Manifest] = ()
    claims: Sequence[Manifest] = ()  # ResourceClaims, also those of others
    secrets: Sequence[Manifest] = ()  # their metadata are enough


def compare(rows: Iterable[Row], objects: Objects, now: datetime, timing: Timing) -> tuple[Difference, ...]:
    """Everything that differs, by workload. What agrees is not in it, nor what is just being made: there the one comes before the other."""
    by_uid = {row.uid: row for row in rows}
    pods: dict[str, list[Manifest]] = {}
    for pod in objects.pods:
        pods.setdefault(workload_of(pod), []).append(pod)
    found: list[Difference] = []
    for uid, mine in pods.items():
        found += _of_pods(by_uid.get(uid), uid, mine, objects)
    for uid, row in by_uid.items():
        if row.holds and uid not in pods and _older(row.held_at, timing.young, now):
            found.append(_phantom(row))
    found += _of_claims(objects, now, timing)
    found += _left_overs(objects, now, timing)
    return tuple(sorted(found, key=lambda one: (one.uid, one.kind, one.objects)))


def _of_pods(row: Row | None, uid: str, pods: Sequence[Manifest], objects: Objects) -> list[Difference]:
    found = []
    for pod in pods:
        if is_terminal(pod) or is_deleting(pod):
            continue  # on its way out; holds nothing for long
        if row is None:
            found.append(_orphan(uid, pod))
        elif row.ended and not row.holds:
            found.append(_runs_on(row, pod))
        elif row.run != run_of(pod):
            found.append(_other_run(row, pod))
        found += _of_share(row, pod, objects)
    return found


def _orphan(uid: str, pod: Manifest) -> Difference:
    readable = True
    try:
        encoding.from_json(annotations(pod).get(names.SPEC, ""))
    except ValueError:
        readable = False
    name = annotations(pod).get(names.NAME, uid)
    adopt = Option(
        Repair.ADOPT,
        (
            f"Makes a row for “{name}” of {annotations(pod).get(names.OWNER, 'its owner')} from the pod's annotations, at run {run_of(pod)}.",
            "Charges its share to the tenant's quota, even where that is then exceeded; nothing is restarted.",
        ),
    )
    evidence = {"name": name, "run": run_of(pod), "readable": readable}
    options = (adopt, _remove(pod)) if readable else (_remove(pod),)
    return Difference(Kind.ORPHAN_POD, uid, (_named("Pod", pod),), evidence, options)


def _phantom(row: Row) -> Difference:
    repair = Option(
        Repair.REPAIR,
        (
            f"Notes that run {row.run} of “{row.name}” is gone, and gives its share back to the quota.",
            "Touches nothing in the cluster.",
        ),
    )
    evidence = {"name": row.name, "run": row.run, **_amounts(row.resources)}
    return Difference(Kind.PHANTOM_ROW, row.uid, (), evidence, (repair,))


def _runs_on(row: Row, pod: Manifest) -> Difference:
    adopt = Option(
        Repair.ADOPT, (f"Takes “{row.name}” for running again, at run {run_of(pod)}, and charges its share.",)
    )
    evidence = {"name": row.name, "run": run_of(pod)}
    return Difference(Kind.ENDED_ROW_RUNS, row.uid, (_named("Pod", pod),), evidence, (_remove(pod), adopt))


def _other_run(row: Row, pod: Manifest) -> Difference:
    newer = run_of(pod) > row.run
    options = [_remove(pod)]
    if newer:
        options.insert(
            0, Option(Repair.REPAIR, (f"Sets the row of “{row.name}” to run {run_of(pod)}; nothing is restarted.",))
        )
    evidence = {"name": row.name, "run": row.run, "pod_run": run_of(pod)}
    return Difference(Kind.OTHER_RUN, row.uid, (_named("Pod", pod),), evidence, tuple(options))


def _of_share(row: Row | None, pod: Manifest, objects: Objects) -> list[Difference]:
    """Whether what the scheduler has given is what the ledger says."""
    if row is None or row.resources.gpu is None or not (pod.get("spec") or {}).get("resourceClaims"):
        return []
    claims = [claim for claim in objects.claims if workload_of(claim) == row.uid and _belongs(claim, pod)]
    parts = [part for claim in claims for part in parts_of(claim)]
    running = (pod.get("status") or {}).get("phase") == "Running"
    if not parts:
        evidence = {"name": row.name, **_amounts(row.resources)}
        missing = Difference(Kind.NO_CLAIM, row.uid, (_named("Pod", pod),), evidence, (_remove(pod),))
        return [missing] if running else []
    gpu = row.resources.gpu
    given = [(part.limit or part.memory, part.compute) for part in parts]
    expected = (None, None) if gpu.exclusive else (gpu.memory, gpu.compute)
    whole = gpu.exclusive and all(compute in (None, 1000) for _, compute in given)
    if len(given) == gpu.count and (whole or all(one == expected for one in given)):
        return []
    evidence = {
        "name": row.name,
        **_amounts(row.resources),
        "given": [{"card": "/".join(part.place), "memory": part.memory, "compute": part.compute} for part in parts],
    }
    repair = Option(
        Repair.REPAIR,
        (f"Sets the share in the row of “{row.name}” to what the scheduler has given; the quota is charged anew.",),
    )
    objects_named = (_named("Pod", pod), *(_named("ResourceClaim", claim) for claim in claims))
    return [Difference(Kind.OTHER_SHARE, row.uid, objects_named, evidence, (repair, _remove(pod)))]


def _belongs(claim: Manifest, pod: Manifest) -> bool:
    return namespace_of(claim) == namespace_of(pod) and labels(claim).get(names.RUN) == labels(pod).get(names.RUN)


def _of_claims(objects: Objects, now: datetime, timing: Timing) -> list[Difference]:
    alive = {(namespace_of(pod), labels(pod).get(names.WORKLOAD), labels(pod).get(names.RUN)) for pod in objects.pods}
    found = []
    for claim in objects.claims:
        parts = parts_of(claim)
        if not parts or not _older(time(meta(claim).get("deletionTimestamp")), timing.young, now):
            continue  # holds nothing, or is being let go of
        evidence = {"cards": ["/".join(part.place) for part in parts], "reserved": _reserved(claim)}
        named = (_named("ResourceClaim", claim),)
        if names.PORTAL not in labels(claim):
            found.append(Difference(Kind.FOREIGN_CLAIM, "", named, evidence))
        elif (namespace_of(claim), labels(claim).get(names.WORKLOAD), labels(claim).get(names.RUN)) not in alive:
            remove = Option(
                Repair.REMOVE, (f"Deletes {named[0]}; its part of the card is free when the cluster has let go of it.",)
            )
            found.append(Difference(Kind.ORPHAN_CLAIM, workload_of(claim), named, evidence, (remove,)))
    return found


def _reserved(claim: Manifest) -> list[str]:
    return [str(one.get("name")) for one in (claim.get("status") or {}).get("reservedFor") or ()]


def _left_overs(objects: Objects, now: datetime, timing: Timing) -> list[Difference]:
    """Of the age at which the controller, too, takes them for such: its own way of making a run puts the pod last."""
    pods = {(namespace_of(pod), labels(pod).get(names.WORKLOAD), run_of(pod)) for pod in objects.pods}
    idle = [claim for claim in objects.claims if not parts_of(claim)]
    found = []
    for kind, things in (("Secret", objects.secrets), ("ResourceClaim", idle)):
        for thing in things:
            of_run = (namespace_of(thing), labels(thing).get(names.WORKLOAD), run_of(thing))
            needed = of_run in pods or is_deleting(thing)
            if (
                names.PORTAL in labels(thing)
                and names.WORKLOAD in labels(thing)
                and not needed
                and _older(made_at(thing), timing.left_over, now)
            ):
                remove = Option(Repair.REMOVE, (f"Deletes {_named(kind, thing)}, which nothing uses.",))
                found.append(Difference(Kind.LEFT_OVER, workload_of(thing), (_named(kind, thing),), {}, (remove,)))
    return found


def _older(since: datetime | None, age: timedelta, now: datetime) -> bool:
    """What has no date is as old as can be: it is shown."""
    return since is None or now - since >= age


def _remove(pod: Manifest) -> Option:
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 1
    return Option(
        Repair.REMOVE,
        (
            f"Asks {_named('Pod', pod)} to end, by force after {grace} s, and then deletes its secret and its claim.",
            "The home folder is kept; what was not saved is lost.",
        ),
    )


def _named(kind: str, thing: Manifest) -> str:
    return f"{kind} {namespace_of(thing)}/{name_of(thing)}"


def _amounts(resources: Resources) -> dict[str, Any]:
    gpu = resources.gpu
    return {
        "asked_gpus": gpu.count if gpu else 0,
        "memory_bytes": gpu.memory if gpu else 0,
        "compute_permille": gpu.compute if gpu else 0,
    }
