"""From the cluster's objects the plain facts with which the portal can make its rows again, when its database is lost. Pure.

The cluster has all that runs, not all that ever ran; whether somebody had stopped it meanwhile is told by what is being deleted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apps.cluster.drivers.kubernetes import encoding, names
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    annotations,
    is_deleting,
    is_terminal,
    made_at,
    name_of,
    namespace_of,
    run_of,
    workload_of,
)
from apps.cluster.specs import RunSpec
from apps.core.share import Resources


@dataclass(frozen=True, slots=True)
class Found:
    """One workload, as its newest pod tells of it. `owner` and `tenant` are the portal's ids, `owner_name` and `tenant_slug` words for
    people, to find the rows again when the ids are new."""

    uid: str
    run: int
    kind: str
    name: str
    slug: str
    owner: str
    owner_name: str
    tenant: str
    tenant_slug: str
    environment: str
    environment_slug: str
    resources: Resources
    made_at: datetime | None
    wanted: bool  # False: it is being ended, or has ended
    namespace: str
    pod: str
    volumes: tuple[str, ...]  # the portal's keys
    spec: RunSpec


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A pod of this portal that does not say enough."""

    namespace: str
    pod: str
    problem: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    workloads: tuple[Found, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    volumes: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # the portal's key -> tenant's namespace, owner's name


def rebuild(pods: Iterable[Manifest], volumes: Iterable[Manifest] = ()) -> Rebuilt:
    newest: dict[str, Manifest] = {}
    for pod in pods:
        uid = workload_of(pod)
        if uid and (uid not in newest or run_of(pod) > run_of(newest[uid])):
            newest[uid] = pod
    found: list[Found] = []
    unreadable: list[Unreadable] = []
    for uid, pod in sorted(newest.items()):
        try:
            found.append(_found(uid, pod))
        except ValueError as problem:
            unreadable.append(Unreadable(namespace_of(pod), name_of(pod), str(problem)))
    return Rebuilt(tuple(found), tuple(unreadable), _volumes(volumes))


def _found(uid: str, pod: Manifest) -> Found:
    spec = encoding.from_json(annotations(pod).get(names.SPEC, ""))
    if spec.uid != uid or spec.run != run_of(pod):
        raise ValueError(f"its labels say {uid}, run {run_of(pod)}, its spec says {spec.uid}, run {spec.run}")
    return Found(
        uid=uid,
        run=spec.run,
        kind=spec.kind,
        name=annotations(pod).get(names.NAME) or spec.name,
        slug=spec.slug,
        owner=spec.owner,
        owner_name=spec.labels.get("owner") or annotations(pod).get(names.OWNER, ""),
        tenant=spec.tenant,
        tenant_slug=spec.labels.get("tenant", ""),
        environment=spec.environment,
        environment_slug=spec.labels.get("environment", ""),
        resources=spec.resources,
        made_at=made_at(pod),
        wanted=not (is_deleting(pod) or is_terminal(pod)),
        namespace=namespace_of(pod),
        pod=name_of(pod),
        volumes=tuple(volume.name for volume in spec.volumes),
        spec=spec,
    )


def _volumes(claims: Iterable[Manifest]) -> dict[str, tuple[str, str]]:
    return {
        key: (namespace_of(claim), annotations(claim).get(names.OWNER, ""))
        for claim in claims
        if (key := annotations(claim).get(names.VOLUME))
    }


def plain(found: Found) -> dict[str, Any]:
    """For a page or a command that shows what would be made."""
    gpu = found.resources.gpu
    return {
        "uid": found.uid,
        "run": found.run,
        "name": found.name,
        "owner": found.owner_name or found.owner,
        "tenant": found.tenant_slug or found.tenant,
        "environment": found.environment_slug or found.environment,
        "gpus": gpu.count if gpu else 0,
        "memory_bytes": gpu.memory if gpu else 0,
        "compute_permille": gpu.compute if gpu else 0,
        "cpu_milli": found.resources.cpu_milli,
        "ram_bytes": found.resources.ram,
        "wanted": found.wanted,
    }
