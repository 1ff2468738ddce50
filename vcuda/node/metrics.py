"""Prometheus text, made from the newest samples and ledgers when it is asked for. Absent series mean "no data"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vcuda.node.node import Node

_GAUGES: Final = {
    "compute_used": ("compute_used_ratio", "GPU time used in the last second, as a part of the card", 1000),
    "compute_limit": ("compute_share_ratio", "Share of the card now: guarantee and what is lent", 1000),
    "memory_used": ("memory_used_bytes", "GPU memory in use", 1),
    "memory_limit": ("memory_limit_bytes", "GPU memory that may be used", 1),
    "uncounted_bytes": ("memory_uncounted_bytes", "GPU memory that the driver sees and the ledgers do not", 1),
    "borrowed": ("compute_borrowed_ratio", "GPU time above the guarantee in the last second", 1000),
    "temperature": ("temperature_celsius", "Temperature of the card", 1),
    "power": ("power_watts", "Power drawn by the card", 1),
}
_COUNTERS: Final = {
    "charged_ns": ("compute_charged_seconds", "GPU time charged by the limiting library", 1e9),
    "borrowed_ns": ("compute_borrowed_seconds", "GPU time charged above the guarantee", 1e9),
    "throttled_ns": ("throttled_seconds", "Waiting for the share, summed over threads", 1e9),
    "launches": ("launches", "Kernel launches", 1),
    "denied_bytes": ("memory_denied_bytes", "Bytes of refused allocations", 1),
    "denied_count": ("memory_denied", "Refused allocations", 1),
    "copy_to_device": ("copied_to_device_bytes", "Bytes copied to the card", 1),
    "copy_to_host": ("copied_to_host_bytes", "Bytes copied from the card", 1),
    "copy_on_device": ("copied_on_device_bytes", "Bytes copied within or between cards", 1),
    "copy_to_device_ns": ("copying_to_device_seconds", "Time of copies to the card from 1 MiB on", 1e9),
    "copy_to_host_ns": ("copying_to_host_seconds", "Time of copies from the card from 1 MiB on", 1e9),
    "copy_on_device_ns": ("copying_on_device_seconds", "Time of copies on the card from 1 MiB on", 1e9),
}


class _NodeCollector(Collector):
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        yield from self._gauges("card", "tessera_card_", ["card"])
        yield from self._gauges("run", "tessera_claim_", ["claim", "card"])
        yield from self._counters()
        yield from self._health()

    def _gauges(self, kind: str, prefix: str, labels: list[str]) -> Iterator[Metric]:
        for field, (name, text, scale) in _GAUGES.items():
            family = GaugeMetricFamily(prefix + name, text, labels=labels)
            for sample in self._node.samples:
                what, *subject = sample.subject.split(":")
                value = getattr(sample, field)
                if what == kind and value is not None:
                    family.add_metric(subject, value / scale)
            if family.samples:
                yield family

    def _counters(self) -> Iterator[Metric]:
        for field, (name, text, scale) in _COUNTERS.items():
            family = CounterMetricFamily(f"tessera_claim_{name}", text, labels=["claim", "card"])
            for claim in self._node.claims.values():
                for uuid, part in claim.parts.items():
                    if claim.now is not None:
                        value = getattr(claim.now.pages[part.index].device, field)
                        family.add_metric([claim.claim.name, uuid], value / scale)
            yield family

    def _health(self) -> Iterator[Metric]:
        healthy = GaugeMetricFamily("tessera_card_healthy", "1 when the card answers", labels=["card"])
        for uuid, card in self._node.cards.items():
            healthy.add_metric([uuid], 0 if card.illness else 1)
        yield healthy
        bypass = GaugeMetricFamily(
            "tessera_claim_bypass", "1 while programs go around the claim's limits", labels=["claim", "card"]
        )
        for claim in self._node.claims.values():
            for uuid, part in claim.parts.items():
                bypass.add_metric([claim.claim.name, uuid], 0 if part.watch.evidence is None else 1)
        yield bypass
        multiplier = GaugeMetricFamily(
            "tessera_claim_multiplier",
            "Correction of charged time against the driver's measurement",
            labels=["claim", "card"],
        )
        for claim in self._node.claims.values():
            for uuid, part in claim.parts.items():
                multiplier.add_metric([claim.claim.name, uuid], part.m)
        yield multiplier


def text(node: Node) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_NodeCollector(node))
    return generate_latest(registry)
