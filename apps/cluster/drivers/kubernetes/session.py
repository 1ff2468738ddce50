"""A started driver's connection to its cluster: the watches, what they know, and what is done about it."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import structlog

from apps.cluster.drivers.kubernetes import names, resizing
from apps.cluster.drivers.kubernetes.adapters import Choice, Offers, choose
from apps.cluster.drivers.kubernetes.api import Api, ApiError, ClusterUnavailable, Connection
from apps.cluster.drivers.kubernetes.figures import Figures
from apps.cluster.drivers.kubernetes.inventory import inventory
from apps.cluster.drivers.kubernetes.keeping import Keeper
from apps.cluster.drivers.kubernetes.kinds import CLAIMS, SECRETS, VOLUMES
from apps.cluster.drivers.kubernetes.making import Maker, NoImage, refusal
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    id_of,
    is_deleting,
    is_terminal,
    meta,
    name_of,
    namespace_of,
    node_of,
    run_of,
    spec,
    volumes_of,
    workload_of,
)
from apps.cluster.drivers.kubernetes.prodding import Prodder
from apps.cluster.drivers.kubernetes.readiness import Prober
from apps.cluster.drivers.kubernetes.runs import Runs
from apps.cluster.drivers.kubernetes.settings import Rules, Timing
from apps.cluster.drivers.kubernetes.waiting import Waiting
from apps.cluster.drivers.kubernetes.watches import Changed, Watches
from apps.cluster.drivers.kubernetes.ways import Ways
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.drivers.local.feed import Feed
from apps.cluster.specs import Inventory, Observation, RunSpec, Sample
from apps.core import clock
from apps.core.errors import Conflict, NotFound, PortalError, Unavailable
from apps.core.share import GpuShare

log = structlog.get_logger(__name__)

_AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)  # s between attempts at what nobody waits for; the last one from then on
_REMOVAL = 30.0  # s that are waited for a volume to be gone


@dataclass(frozen=True, slots=True)
class Choices:
    """What was said about this driver when it was made."""

    connection: Connection = field(default_factory=Connection)
    rules: Rules = field(default_factory=Rules)
    timing: Timing = field(default_factory=Timing)
    adapter: str = ""  # of shares; empty: by what the cluster offers
    forward: bool = False  # pods' addresses cannot be reached from here
    agent_token_file: str = ""  # empty: read from the agents' secret


class Session:
    def __init__(self, choices: Choices, feed: Feed) -> None:
        self._choices, self._timing = choices, choices.timing
        self.api = Api(choices.connection, timeout=self._timing.request)
        self.world = World()
        self.maker = Maker(self.api, choices.rules, self.world, self._absorb)
        self.ways = Ways(self.api, choices.rules, self.maker.token, forward=choices.forward)
        self.keeper = Keeper(self.api, choices.rules, self._timing, self.world, self.maker)
        self._room_changed = asyncio.Event()
        self.waiting = Waiting(
            *(self.world, self._timing, self.choice),
            who=lambda: self.runs.waiting,
            look=self._room_changed.set,
            wake=self.keeper.wake_scheduler,
        )
        self.runs = Runs(self.world, feed, self._timing, explain=self.waiting.why, probe=self._probe, gone=self._gone)
        self.figures = Figures(self.ways.address, self.world.owner_of_claim, self._agent_token)
        self.watches = Watches(self.api, choices.rules, self._timing, self._told(), self.figures.agent_changed)
        self._prodder = Prodder(self.api, self.keeper.begin, self._timing.prods)
        self._prober = Prober()
        self._successors: dict[str, RunSpec] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by workload
        self._choice: tuple[tuple[bool, int], Choice] | None = None
        self._volume_changed = asyncio.Event()

    # --- Its life --------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        await self.api.open()
        self.watches.start()
        await self.watches.synced(self._timing.start)
        self.runs.live = True
        for uid in list(self.world.pods):
            self.runs.look(uid)
        self.keeper.begin(self._explain_again(), "explain waiting")
        self.keeper.begin(self.keeper.sweep(), "sweep")

    async def close(self) -> None:
        self.waiting.close()
        await self.watches.close()
        await self.keeper.close()
        await self.runs.close()
        await self.figures.close()
        await self.ways.close()
        await self.api.close()

    def _told(self) -> Mapping[str, Changed]:
        return {
            "pods": self._pod_changed,
            "nodes": self._node_changed,
            "resourceclaims": self._claim_changed,
            "resourceslices": self._slice_changed,
            "persistentvolumeclaims": self._volume_told,
            "namespaces": self.world.namespace_changed,
            "deviceclasses": self.world.class_changed,
            "events": self._event_changed,
        }

    # --- What the watches tell -------------------------------------------------------------------------------------------
    def _absorb(self, thing: Manifest) -> None:
        self.watches.absorb(thing)

    def _pod_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self._believe()
        self.runs.pod_changed(before, after)

    def _node_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self._believe()
        self.runs.node_changed(before, after)
        self._room_changed.set()

    def _claim_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self.runs.look(self.world.claim_changed(before, after))
        self._room_changed.set()

    def _slice_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self.world.slice_changed(before, after)
        self._room_changed.set()

    def _volume_told(self, before: Manifest | None, after: Manifest | None) -> None:
        self.world.volume_changed(before, after)
        self._volume_changed.set()

    def _event_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self.world.event_changed(before, after)
        about = ((after or before or {}).get("involvedObject")) or {}
        for uid, pods in self.world.pods.items():
            if (str(about.get("namespace", "")), str(about.get("name", ""))) in pods:
                self._prodder.complained(after or {}, pods.values())
                self.runs.look(uid)
                return

    def _believe(self) -> None:
        self.runs.nodes_known = self.watches.nodes.fresh

    # --- Seeing ----------------------------------------------------------------------------------------------------------
    def seen(self, uid: str) -> Observation:
        self._believe()
        if not self.watches.pods.fresh:
            return self.runs.unknown(uid, self._since())
        return self.runs.seen(uid)

    def all_seen(self) -> Sequence[Observation]:
        return [self.seen(uid) for uid in list(self.world.pods)]

    def _since(self) -> str:
        at = clock.now() - timedelta(seconds=round(self.watches.pods.staleness))
        return at.replace(microsecond=0).isoformat()

    def choice(self) -> Choice:
        served = self.watches.claims.served and self.watches.classes.served
        key = (served, self.world.offers)
        if self._choice is None or self._choice[0] != key:
            self.world.claims_served = served
            offers = Offers(served, sorted(self.world.classes), self.world.slices, list(self.world.nodes.values()))
            self._choice = key, choose(offers, self._choices.adapter)
        return self._choice[1]

    def inventory(self) -> Inventory:
        if not self.watches.room_known:
            raise ClusterUnavailable("The cluster cannot be watched now, so its cards are not known.")
        return inventory(self.world, self.choice(), silent_agents=bool(self.figures.silent))

    async def _explain_again(self) -> None:
        """What those that wait wait for changes with every claim; they are told soon, not each time."""
        while True:
            await self._room_changed.wait()
            await asyncio.sleep(self._timing.room * (1 + len(self.runs.waiting) / 50))
            self._room_changed.clear()
            for uid in list(self.runs.waiting):
                self.runs.look(uid)

    # --- Making and ending -----------------------------------------------------------------------------------------------
    async def apply(self, spec: RunSpec) -> Observation:
        async with self._locks.setdefault(spec.uid, asyncio.Lock()):
            self._must_know()
            there = self.world.newest(spec.uid)
            ended = self.runs.ended(spec.uid)
            if there is not None and (run_of(there) >= spec.run or not is_terminal(there)):
                if run_of(there) < spec.run:
                    self._successors[spec.uid] = spec
                    await self._end(there, self._grace(there))
                return self.seen(spec.uid)
            if there is None and ended is not None and ended.run >= spec.run:
                return self.seen(spec.uid)
            return await self._make(spec)

    async def _make(self, spec: RunSpec) -> Observation:
        earlier = self.world.pods_of(spec.uid)
        try:
            await self.maker.make(spec, self.choice().adapter)
        except NoImage as error:
            return self.runs.never_made(spec, error.code, error.evidence)
        except ApiError as error:
            raise refusal(error) from error
        for pod in earlier:  # ended by themselves; kept until now for their output
            self.keeper.begin(self._remove_quietly(pod), f"remove {name_of(pod)}")
        return self.seen(spec.uid)

    async def _remove_quietly(self, pod: Manifest) -> None:
        try:
            await self.maker.remove_pod(pod, 0)
        except (ApiError, Unavailable) as problem:
            log.info("left_for_later", pod=name_of(pod), problem=str(problem))

    async def resize(self, uid: str, run: int, share: GpuShare) -> GpuShare:
        async with self._locks.setdefault(uid, asyncio.Lock()):
            self._must_know()
            pod = self.world.newest(uid)
            claims = self.world.claims_of(pod) if pod is not None else []
            if pod is None or run_of(pod) != run or is_terminal(pod) or is_deleting(pod) or not claims:
                raise NotFound("This run has no GPU now.")
            kept = resizing.kept(claims[0], share)
            patch = {"metadata": {"annotations": resizing.annotation(share)}}
            try:
                await self.api.merge(CLAIMS, namespace_of(claims[0]), name_of(claims[0]), patch)
            except ApiError as error:
                raise refusal(error) from error
            resizing.check(await self.figures.refresh(node_of(pod), id_of(claims[0])), share)
            return kept

    async def delete(self, uid: str, grace_seconds: int) -> Observation:
        async with self._locks.setdefault(uid, asyncio.Lock()):
            self._must_know()
            self._successors.pop(uid, None)
            for pod in self.world.pods_of(uid):
                if not is_terminal(pod):
                    await self._end(pod, grace_seconds)
            return self.seen(uid)

    async def _end(self, pod: Manifest, grace_seconds: int) -> None:
        """Of several that ask the shortest grace counts."""
        left = meta(pod).get("deletionGracePeriodSeconds")
        if is_deleting(pod) and (left is None or left <= max(grace_seconds, 1)):
            return
        self.runs.ours.add(id_of(pod))
        try:
            await self.maker.remove_pod(pod, grace_seconds)
        except ApiError as error:
            raise refusal(error) from error

    def _grace(self, pod: Manifest) -> int:
        return int(spec(pod).get("terminationGracePeriodSeconds") or 1)

    def _must_know(self) -> None:
        if not self.watches.pods.fresh:
            raise ClusterUnavailable(f"The cluster cannot be watched now: {self.watches.pods.problem or 'no answer'}")

    def _gone(self, pod: Manifest) -> None:
        """Its pod is no more: whoever waits for that goes on."""
        self.ways.drop(pod)
        self._prodder.gone(pod)
        self.keeper.begin(self.keeper.tidy(pod), f"tidy {name_of(pod)}")
        uid = workload_of(pod)
        if uid in self._successors:
            self.keeper.begin(self._succeed(uid), f"succeed {uid}")

    async def _succeed(self, uid: str) -> None:
        tries = 0
        while (wanted := self._successors.get(uid)) is not None:
            try:
                await self.apply(wanted)
                if self._successors.get(uid) is wanted:
                    there = self.world.newest(uid)
                    if there is None or run_of(there) >= wanted.run:
                        del self._successors[uid]
                return
            except Unavailable:
                await asyncio.sleep(_AGAIN[min(tries, len(_AGAIN) - 1)])
                tries += 1
            except PortalError as error:
                self._successors.pop(uid, None)
                self.runs.never_made(wanted, error.code, {"problem": str(error.message), **error.evidence})

    async def remove_volume(self, volume: str) -> None:
        if not self.watches.volumes.fresh or not self.watches.pods.fresh:
            raise ClusterUnavailable("The cluster cannot be watched now, so no volume is removed.")
        name = names.volume_name(volume)
        for where in {where for where, known in self.world.volumes if known == name}:
            await self._remove_volume_in(where, name, volume)

    async def _remove_volume_in(self, where: str, name: str, volume: str) -> None:
        users = [p for p in self.world.all_pods() if namespace_of(p) == where and name in volumes_of(p)]
        running = next((pod for pod in users if not is_terminal(pod)), None)
        if running is not None:
            raise Conflict(f"Volume {volume} is in use by {workload_of(running)}.", hint="Stop it first.")
        try:
            for pod in users:  # ended, but the cluster keeps a volume for as long as a pod names it
                await self.maker.remove_pod(pod, 0)
            await self.api.delete(VOLUMES, where, name)
        except ApiError as error:
            raise refusal(error) from error
        await self._until_gone(where, name, volume)

    async def _until_gone(self, where: str, name: str, volume: str) -> None:
        try:
            async with asyncio.timeout(_REMOVAL):
                while (where, name) in self.world.volumes:
                    self._volume_changed.clear()
                    await self._volume_changed.wait()
        except TimeoutError:
            raise ClusterUnavailable(f"Volume {volume} is being removed and still there.") from None

    # --- Reaching --------------------------------------------------------------------------------------------------------
    async def _probe(self, pod: Manifest, spec: RunSpec) -> None:
        assert spec.probe is not None
        tries = 0
        while True:
            try:
                endpoint = await self.ways.endpoint(pod, spec, spec.probe.port)
                break
            except (Unavailable, NotFound):
                await asyncio.sleep(_AGAIN[min(tries, len(_AGAIN) - 1)])
                tries += 1
        await self._prober.answered(endpoint, spec.probe.path)
        self.keeper.begin(self.keeper.mark_ready(pod), f"mark {name_of(pod)}")

    async def _agent_token(self) -> str:
        if self._choices.agent_token_file:
            return await asyncio.to_thread(_read, self._choices.agent_token_file)
        found = await self.api.get(SECRETS, names.AGENT_NAMESPACE, "tessera-node-agent-token")
        if found is None:
            raise ClusterUnavailable("The secret of the node agents is missing.")
        return b64decode((found.get("data") or {}).get("token", "")).decode().strip()

    def samples(self) -> AsyncIterator[Sequence[Sample]]:
        return self.figures.batches()

    def health(self) -> dict[str, Any]:
        """Plain data, for the diagnosis."""
        return {
            "watches": self.watches.health(),
            "silent_agents": dict(self.figures.silent),
            "requests": self.api.sent,
            "refused": self.api.refused,
        }


def _read(path: str) -> str:
    return Path(path).read_text().strip()
