"""Everything that the API server says of its cluster, asked at once. What it keeps from us is `Hidden`, with the reason, and hides nothing else."""

import asyncio
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from apps.cluster.drivers.kubernetes import kinds, names
from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.diagnosis.rights import CLUSTER, FIGURES, Reviews, review
from apps.cluster.drivers.kubernetes.kinds import Resource
from apps.cluster.drivers.kubernetes.objects import Manifest
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.core.errors import Unavailable

T = TypeVar("T")

FEATURES = "kubernetes_feature_enabled"
SEATS = "apiserver_flowcontrol_nominal_limit_seats"
REJECTED = "apiserver_flowcontrol_rejected_requests_total"
_METRICS = (FEATURES, SEATS, REJECTED)  # of some thousand lines
_CONTROL = "tier=control-plane"  # label of kubeadm, and of most that install in its way
_FLOWS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Not seen, and why."""

    problem: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of /metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Flow:
    """In which of the API server's queues our requests wait."""

    schema: str
    level: str


@dataclass(frozen=True, slots=True)
class Seen:
    version: str
    took: float  # s for the first answer
    dra: Sequence[str] | Hidden  # versions of resource.k8s.io; none where there is no such group
    metrics: Sequence[Sample] | Hidden
    flow: Flow | Hidden
    reviews: Reviews | Hidden
    nodes: Sequence[Manifest] | Hidden
    slices: Sequence[Manifest] | Hidden
    classes: Sequence[Manifest] | Hidden
    claims: Sequence[Manifest] | Hidden
    pods: Sequence[Manifest] | Hidden  # of this portal
    volumes: Sequence[Manifest] | Hidden  # of this portal
    agents: Sequence[Manifest] | Hidden
    control: Sequence[Manifest] | Hidden  # pods of scheduler and controller-manager


async def look(api: Api, rules: Rules) -> Seen:
    """Raises Unavailable, or ApiError, where not even the version is told."""
    began = time.monotonic()
    told = await api.request("GET", "/version")
    took = time.monotonic() - began
    mine = {"labelSelector": names.selector(names.portal_labels(rules.portal))}
    ours = {"fieldSelector": f"spec.driver={names.DRIVER}"}
    agents = {"labelSelector": names.AGENT_LABEL}
    async with asyncio.TaskGroup() as group:

        def ask(work: Awaitable[T]) -> asyncio.Task[T | Hidden]:
            return group.create_task(_tried(work))

        dra, metrics, flow = ask(_versions(api)), ask(_metrics(api)), ask(_flow(api))
        reviews, nodes = ask(_reviews(api, mine)), ask(api.find(kinds.NODES))
        slices, classes = ask(_served(api, kinds.SLICES, ours)), ask(_served(api, kinds.CLASSES))
        claims, pods = ask(_served(api, kinds.CLAIMS)), ask(api.find(kinds.PODS, params=mine))
        volumes = ask(api.find(kinds.VOLUMES, params=mine))
        at_nodes = ask(api.find(kinds.PODS, names.AGENT_NAMESPACE, params=agents))
        control = ask(api.find(kinds.PODS, params={"labelSelector": _CONTROL}))
    return Seen(
        version=str(told.get("gitVersion", "")),
        took=took,
        dra=dra.result(),
        metrics=metrics.result(),
        flow=flow.result(),
        reviews=reviews.result(),
        nodes=nodes.result(),
        slices=slices.result(),
        classes=classes.result(),
        claims=claims.result(),
        pods=pods.result(),
        volumes=volumes.result(),
        agents=at_nodes.result(),
        control=control.result(),
    )


async def _tried(work: Awaitable[T]) -> T | Hidden:
    try:
        return await work
    except ApiError as error:
        return Hidden(error.message or str(error))
    except Unavailable as error:
        return Hidden(str(error.message))


async def _served(api: Api, resource: Resource, params: Mapping[str, str] | None = None) -> list[Manifest]:
    """Nothing where the API server does not know the kind."""
    try:
        return await api.find(resource, params=params)
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def _versions(api: Api) -> list[str]:
    try:
        group = await api.request("GET", "/apis/resource.k8s.io")
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return [str(one.get("version")) for one in group.get("versions") or ()]


async def _metrics(api: Api) -> list[Sample]:
    return read_metrics((await api.read("GET", "/metrics", accept="text/plain")).decode(), _METRICS)


def read_metrics(text: str, wanted: Collection[str]) -> list[Sample]:
    """Of the metrics `wanted` all lines. Parsing the whole, some megabytes, would take seconds."""
    lines = [line for line in text.splitlines() if line.startswith(tuple(wanted))]
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    return [Sample(one.name, one.labels, one.value) for family in families for one in family.samples]


async def _flow(api: Api) -> Flow:
    """Each answer names its queue by ids; their names stand in the objects."""
    headers, schemas, levels = await asyncio.gather(api.headers("/version"), api.find(_FLOWS), api.find(_LEVELS))
    known: dict[str, str] = {one["metadata"]["uid"]: one["metadata"]["name"] for one in (*schemas, *levels)}
    ids = [headers.get(f"X-Kubernetes-PF-{kind}-UID", "") for kind in ("FlowSchema", "PriorityLevel")]
    if not all(one in known for one in ids):
        raise Unavailable("The API server's answers name no flow schema.")
    return Flow(*(known[one] for one in ids))


async def _reviews(api: Api, mine: Mapping[str, str]) -> Reviews:
    places = [one["metadata"]["name"] for one in await api.find(kinds.NAMESPACES, params=mine)]
    return await review(api, (*CLUSTER, *FIGURES), places)


def rows(found: Sequence[Any] | Hidden) -> Sequence[Any]:
    """For what adds to a judgement and is not its ground."""
    return () if isinstance(found, Hidden) else found
