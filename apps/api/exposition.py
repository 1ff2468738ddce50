"""Figures of the platform for Prometheus, read from the rows when they are scraped. Holds no counters of its own."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.api.names import DIMENSIONS
from apps.cluster import selectors as cluster
from apps.core import clock
from apps.quotas import ledger
from apps.quotas.admission import AMOUNTS
from apps.telemetry import selectors as telemetry
from apps.workloads.models import Phase, Workload

FRESH = timedelta(minutes=1)


class Platform(Collector):
    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("tessera", "The version that answers.", value={"version": settings.VERSION})
        yield _workloads()
        yield from _held()
        yield from _gpus()


def _workloads() -> Metric:
    family = GaugeMetricFamily("tessera_workloads", "Workloads that are not deleted, by phase.", labels=["phase"])
    found = dict(Workload.objects.filter(deleted_at=None).order_by().values_list("phase").annotate(Count("id")))
    for phase in Phase.values:
        family.add_metric([phase], found.get(phase, 0))
    return family


def _held() -> Iterator[Metric]:
    sums = [Sum(name) for name in AMOUNTS]
    rows = list(ledger.held().values_list("tenant__slug").annotate(*sums).order_by("tenant__slug"))
    for column, name in enumerate(AMOUNTS, start=1):
        family = GaugeMetricFamily(f"tessera_held_{DIMENSIONS[name]}", "Held claims of a tenant.", labels=["tenant"])
        for row in rows:
            family.add_metric([row[0]], row[column])
        yield family


def _gpus() -> Iterator[Metric]:
    labels = ["uuid", "node", "model"]
    allocatable = GaugeMetricFamily("tessera_gpu_memory_bytes", "Memory that can be given out.", labels=labels)
    memory = GaugeMetricFamily("tessera_gpu_allocated_memory_bytes", "Memory that is given out.", labels=labels)
    compute = GaugeMetricFamily("tessera_gpu_allocated_compute_permille", "Compute that is given out.", labels=labels)
    healthy = GaugeMetricFamily("tessera_gpu_healthy", "1: usable.", labels=labels)
    busy = GaugeMetricFamily(
        "tessera_gpu_compute_used_permille", "Compute in use; absent without a fresh figure.", labels=labels
    )
    used = GaugeMetricFamily(
        "tessera_gpu_memory_used_bytes", "Memory in use; absent without a fresh figure.", labels=labels
    )
    gpus = list(cluster.gpus())
    latest = telemetry.latest(f"card:{gpu.uuid}" for gpu in gpus)
    oldest = (clock.now() - FRESH).timestamp()
    for gpu in gpus:
        named = [gpu.uuid, gpu.node, gpu.model]
        allocatable.add_metric(named, gpu.memory)
        memory.add_metric(named, gpu.allocated_memory)
        compute.add_metric(named, gpu.allocated_compute)
        healthy.add_metric(named, gpu.healthy)
        sample = latest.get(f"card:{gpu.uuid}")
        if sample is not None and sample.at >= oldest:
            for family, value in ((busy, sample.compute_used), (used, sample.memory_used)):
                if value is not None:
                    family.add_metric(named, value)
    yield from (allocatable, memory, compute, healthy, busy, used)


def rendered() -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Platform())
    return generate_latest(registry)
