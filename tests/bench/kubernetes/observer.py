"""Watches the cluster from a process of its own: no card's sum may be above its capacity, at any event. And when each pod got its place."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.cluster.api import Api, Refused

_CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
_PODS: Final = "/api/v1/pods"
_MIB: Final = 1024**2
_UNITS: Final = {"Ki": 1024, "Mi": _MIB, "Gi": 1024**3, "Ti": 1024**4, "": 1}
CAPACITY: Final = {"memory": 80 * 1024**3, "compute": 1000}  # of the cards of fake nodes

Card = tuple[str, str, str]  # pool, device, dimension


def quantity(text: str) -> int:
    unit = text[-2:] if text[-2:] in _UNITS else ""
    return int(text[: len(text) - len(unit)]) * _UNITS[unit]


@dataclass
class Seen:
    """By the observer, so far."""

    events: int = 0  # about claims
    violations: list[str] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)  # of any card at any event, by dimension
    bound: dict[str, float] = field(default_factory=dict)  # name of a pod -> when it was first seen with a node


class Ledger:
    """What is given out of each card, from events about claims alone."""

    def __init__(self) -> None:
        self._held: dict[str, Counter[Card]] = {}
        self._sums: Counter[Card] = Counter()

    def take(self, kind: str, claim: dict[str, Any]) -> list[tuple[Card, int]]:
        """The new sums of the cards that the claim holds."""
        uid = claim["metadata"]["uid"]
        self._sums.subtract(self._held.pop(uid, Counter()))
        if kind == "DELETED":
            return []
        allocation = (claim.get("status") or {}).get("allocation") or {}
        held: Counter[Card] = Counter()
        for result in allocation.get("devices", {}).get("results", ()):
            consumed = result.get("consumedCapacity")
            for dimension, whole in CAPACITY.items():
                amount = quantity(str(consumed[dimension])) if consumed else whole
                held[(result["pool"], result["device"], dimension)] += amount
        if held:
            self._held[uid] = held
            self._sums.update(held)
        return [(card, self._sums[card]) for card in held]


class Observer:
    """`with Observer(kubeconfig) as watching: …; watching.seen()`."""

    def __init__(self, kubeconfig: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_observe, args=(kubeconfig, theirs), daemon=True)

    def __enter__(self) -> Observer:
        self._process.start()
        assert self._ours.recv() == "watching"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.join()

    def seen(self) -> Seen:
        self._ours.send("tell")
        found: Seen = self._ours.recv()
        return found


def _observe(kubeconfig: Path, pipe: Any) -> None:
    api, seen, ledger, lock = Api(kubeconfig), Seen(), Ledger(), threading.Lock()

    def claim(kind: str, thing: dict[str, Any]) -> None:
        with lock:
            seen.events += 1
            for (pool, device, dimension), amount in ledger.take(kind, thing):
                seen.most[dimension] = max(seen.most[dimension], amount)
                if amount > CAPACITY[dimension]:
                    seen.violations.append(f"{pool}/{device}: {amount} {dimension}")

    def pod(_kind: str, thing: dict[str, Any]) -> None:
        if thing["spec"].get("nodeName"):
            with lock:
                seen.bound.setdefault(thing["metadata"]["name"], time.time())

    for path, take in ((_CLAIMS, claim), (_PODS, pod)):
        items, since = _listed(api, path)
        for item in items:
            take("ADDED", item)
        threading.Thread(target=_follow, args=(api, path, since, take), daemon=True).start()
    pipe.send("watching")
    while pipe.recv() == "tell":
        with lock:
            pipe.send(seen)


def _listed(api: Api, path: str) -> tuple[list[dict[str, Any]], str]:
    found = json.loads(api.call("GET", path, timeout=60))
    return found["items"], found["metadata"]["resourceVersion"]


def _follow(api: Api, path: str, since: str, take: Callable[[str, dict[str, Any]], None]) -> None:
    """Every event once: a watch that ends goes on where it was. A gap ends the process, and with it the measurement."""
    while True:
        try:
            for event in api.watch(path, resourceVersion=since, allowWatchBookmarks="true"):
                if event["type"] == "ERROR":
                    print(f"the watch of {path} has a gap: {event['object']}", file=sys.stderr)
                    os._exit(1)
                since = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    take(event["type"], event["object"])
        except (OSError, Refused):
            time.sleep(0.1)
