"""All runs as they are seen: every change is told once, answers are waited for, ends are remembered for as long as this driver lives.

Makes and removes nothing; that is the cluster's, which is told when a pod is no more.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog

from apps.cluster.drivers.kubernetes import ends, observing
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    container,
    id_of,
    is_deleting,
    is_terminal,
    node_answers,
    node_of,
    run_of,
    workload_of,
)
from apps.cluster.drivers.kubernetes.observing import Around
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.drivers.local.feed import Feed
from apps.cluster.specs import Observation, RunSpec, RunState
from apps.core import clock

log = structlog.get_logger(__name__)

Explain = Callable[[RunSpec, str], ends.Reason]
Probe = Callable[[Manifest, RunSpec], Awaitable[None]]  # returns when it answers
Gone = Callable[[Manifest], None]

_ENDED = 10_000  # runs whose end is remembered
_UNKNOWN_NODE: Manifest = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Runs:
    def __init__(self, world: World, feed: Feed, timing: Timing, *, explain: Explain, probe: Probe, gone: Gone) -> None:
        self._world, self._feed, self._timing = world, feed, timing
        self._explain, self._probe, self._on_gone = explain, probe, gone
        self.live = False  # from the first complete sight on
        self.nodes_known = True  # False: nothing is concluded from a node that is missing
        self.waiting: set[str] = set()
        self.ours: set[str] = set()  # ids of pods whose end we have asked for
        self._last: dict[str, Observation] = {}  # by workload, as it was told
        self._ended: OrderedDict[str, Observation] = OrderedDict()
        self._answered: set[str] = set()  # ids of pods
        self._slow: dict[str, int] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._looks: dict[str, asyncio.TimerHandle] = {}

    # --- Being asked -----------------------------------------------------------------------------------------------------
    def seen(self, uid: str) -> Observation:
        """As it is now, if the world may be believed."""
        pod = self._world.newest(uid)
        if pod is not None:
            return self._observed(pod)
        ended = self._ended.get(uid)
        return replace(ended, observed_at=clock.now()) if ended else absent(uid)

    def unknown(self, uid: str, since: str) -> Observation:
        last = self._last.get(uid) or self._ended.get(uid) or absent(uid)
        evidence = {"since": since}
        return Observation(
            uid, last.run, RunState.UNKNOWN, clock.now(), "cluster_unknown", evidence, last.cards, last.node
        )

    def ended(self, uid: str) -> Observation | None:
        return self._ended.get(uid)

    # --- Being told ------------------------------------------------------------------------------------------------------
    def pod_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        if before is not None and after is not None and id_of(before) != id_of(after):
            self.pod_changed(before, None)  # another one under its name: the first is no more
            before = None
        uid = self._world.pod_changed(before, after)
        if not self.live:
            return
        if before is not None and after is None:
            self._vanished(uid, before)
        self.look(uid)

    def node_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self._world.node_changed(before, after)
        name = str(((after or before or {}).get("metadata") or {}).get("name", ""))
        if self.live and _answers(before) != _answers(after):
            for pod in self._world.all_pods():
                if node_of(pod) == name:
                    self.look(workload_of(pod))

    def never_made(self, spec: RunSpec, reason: str, evidence: dict[str, Any]) -> Observation:
        """It was asked for and can never be."""
        seen = Observation(spec.uid, spec.run, RunState.EXITED, clock.now(), reason, evidence)
        self._remember(seen)
        self._tell(seen)
        return seen

    def look(self, uid: str) -> None:
        """Something about it may have changed."""
        pod = self._world.newest(uid) if self.live else None
        if pod is None:
            return
        seen = self._observed(pod)
        self._tell(seen)
        (self.waiting.add if seen.state is RunState.WAITING else self.waiting.discard)(uid)
        self._look_after(uid, pod, seen)

    def _observed(self, pod: Manifest) -> Observation:
        node = self._world.nodes.get(node_of(pod)) if self.nodes_known else _UNKNOWN_NODE
        id_ = id_of(pod)
        around = Around(
            spec=self._world.spec_of(pod),
            node=node,
            cards=self._world.cards_of(pod),
            events=list(self._world.troubles.get(id_, {}).values()),
            answered=id_ in self._answered,
            slow=self._slow.get(id_, 0),
            stuck=timedelta(seconds=self._timing.stuck),
            explain=self._explain,
        )
        return observing.observe(pod, around, clock.now())

    def _tell(self, seen: Observation) -> None:
        last = self._last.get(seen.uid)
        if last is None or replace(last, observed_at=seen.observed_at) != seen:
            self._last[seen.uid] = seen
            self._feed.publish(seen)

    # --- Ends ------------------------------------------------------------------------------------------------------------
    def _vanished(self, uid: str, pod: Manifest) -> None:
        self._cancel_probe(id_of(pod))
        self._answered.discard(id_of(pod))
        ours = id_of(pod) in self.ours
        self.ours.discard(id_of(pod))
        self.waiting.discard(uid)
        last = self._last.get(uid)
        told = last is not None and last.run == run_of(pod) and last.state is RunState.EXITED
        node = self._world.nodes.get(node_of(pod)) if self.nodes_known else _UNKNOWN_NODE
        if told and last is not None:
            seen = last
        else:
            reason, evidence = ends.reason_of_vanished(pod, self._world.spec_of(pod), node, ours=ours)
            seen = Observation(*(uid, run_of(pod), RunState.EXITED, clock.now(), reason, evidence), node=node_of(pod))
        if self._world.newest(uid) is None:
            self._remember(seen)
        if last is None or last.run <= run_of(pod):
            self._tell(seen)
        self._on_gone(pod)

    def _remember(self, seen: Observation) -> None:
        self._ended[seen.uid] = seen
        self._ended.move_to_end(seen.uid)
        while len(self._ended) > _ENDED:
            forgotten, _ = self._ended.popitem(last=False)
            if self._world.newest(forgotten) is None:
                self._last.pop(forgotten, None)

    # --- Looking after it ------------------------------------------------------------------------------------------------
    def _look_after(self, uid: str, pod: Manifest, seen: Observation) -> None:
        id_ = id_of(pod)
        spec = self._world.spec_of(pod)
        if seen.state is RunState.STARTING and spec is not None and id_ not in self._probes:
            task = asyncio.get_running_loop().create_task(self._until_answer(uid, pod, spec), name=f"probe {uid}")
            self._probes[id_] = task
        elif is_deleting(pod) or is_terminal(pod) or not container(pod).get("state", {}).get("running"):
            self._cancel_probe(id_)
        due = observing.changes_at(pod, timedelta(seconds=self._timing.stuck))
        wait = (due - clock.now()).total_seconds() + 0.05 if due is not None else 0.0
        if wait > 0 and uid not in self._looks:
            self._looks[uid] = asyncio.get_running_loop().call_later(wait, self._look_again, uid)

    def _look_again(self, uid: str) -> None:
        self._looks.pop(uid, None)
        self.look(uid)

    async def _until_answer(self, uid: str, pod: Manifest, spec: RunSpec) -> None:
        id_ = id_of(pod)
        answer = asyncio.ensure_future(self._probe(pod, spec))
        try:
            await asyncio.wait({answer}, timeout=self._timing.slow)
            if not answer.done():
                self._slow[id_] = int(self._timing.slow)
                self.look(uid)
            await answer
            self._answered.add(id_)
            self._slow.pop(id_, None)
            self.look(uid)
        except Exception:
            log.exception("probe_failed", workload=uid)
        finally:
            answer.cancel()

    def _cancel_probe(self, pod_id: str) -> None:
        self._slow.pop(pod_id, None)
        task = self._probes.pop(pod_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        for handle in self._looks.values():
            handle.cancel()
        tasks = list(self._probes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def absent(uid: str) -> Observation:
    return Observation(uid=uid, run=0, state=RunState.ABSENT, observed_at=clock.now())


def _answers(node: Manifest | None) -> bool | None:
    return None if node is None else node_answers(node)
