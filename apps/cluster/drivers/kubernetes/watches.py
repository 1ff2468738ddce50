"""The standing watches of a started driver: which kinds, which of their objects, and whom they tell."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from apps.cluster.drivers.kubernetes import cards, kinds, names, observing
from apps.cluster.drivers.kubernetes.api import Api, ClusterUnavailable
from apps.cluster.drivers.kubernetes.kinds import Resource
from apps.cluster.drivers.kubernetes.objects import Manifest, labels
from apps.cluster.drivers.kubernetes.reflector import Reflector
from apps.cluster.drivers.kubernetes.settings import Rules, Timing

Changed = Callable[[Manifest | None, Manifest | None], Any]


class Watches:
    """`tell` maps a kind's plural to who is told of its changes; `agents` is told of the agents' pods."""

    def __init__(
        self, api: Api, rules: Rules, timing: Timing, tell: Mapping[str, Changed], agents: Changed | None = None
    ) -> None:
        mine = names.selector(names.portal_labels(rules.portal))

        def made(resource: Resource, **options: Any) -> Reflector:
            keep = options.pop("keep", _stripped)
            return Reflector(api, resource, tell[resource.plural], timing=timing, keep=keep, **options)

        # Pods are what runs: none that we or an earlier controller have made may be missing in the first list.
        self.pods = made(kinds.PODS, params={"labelSelector": mine}, consistent=True)
        self.nodes = made(kinds.NODES, keep=_node)
        self.claims = made(kinds.CLAIMS, keep=lambda claim: _claim(claim, rules.portal))
        self.slices = made(kinds.SLICES, params={"fieldSelector": f"spec.driver={names.DRIVER}"}, keep=_slice)
        self.volumes = made(kinds.VOLUMES, params={"labelSelector": mine})
        self.namespaces = made(kinds.NAMESPACES, params={"labelSelector": mine})
        self.classes = made(kinds.CLASSES)
        self.needed = [self.pods, self.nodes, self.claims, self.slices, self.volumes, self.namespaces, self.classes]
        self.events = made(kinds.EVENTS, params={"fieldSelector": "involvedObject.kind=Pod,type=Warning"}, keep=_event)
        self.all = [*self.needed, self.events]
        self.agents: Reflector | None = None
        if agents is not None:
            agent_params = {"labelSelector": names.AGENT_LABEL}
            self.agents = Reflector(
                api, kinds.PODS, agents, params=agent_params, namespace=names.AGENT_NAMESPACE, timing=timing
            )
            self.all.append(self.agents)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(one.run(), name=f"watch {one.resource.plural}") for one in self.all]

    async def synced(self, within: float) -> None:
        """Until everything was listed once; raises ClusterUnavailable with what stands in the way."""
        try:
            async with asyncio.timeout(within):
                await asyncio.gather(*(one.synced.wait() for one in self.needed))
        except TimeoutError:
            missing = [one for one in self.needed if not one.synced.is_set()]
            problem = "; ".join(f"{one.resource.plural}: {one.problem or 'no answer yet'}" for one in missing)
            raise ClusterUnavailable(
                f"The cluster could not be listed: {problem}", evidence={"problem": problem}
            ) from None

    @property
    def room_known(self) -> bool:
        return all(one.fresh for one in (self.pods, self.nodes, self.claims, self.slices))

    def absorb(self, thing: Manifest) -> None:
        """Something of our own was written; who watches its kind knows it from now on."""
        for one in (self.pods, self.volumes, self.namespaces):
            if one.resource.kind == thing.get("kind"):
                one.absorb(thing)

    def health(self) -> list[dict[str, Any]]:
        """For the diagnosis."""
        return [
            {
                "kind": "agents" if one is self.agents else one.resource.plural,
                "served": one.served,
                "fresh": one.fresh,
                "staleness_seconds": round(one.staleness, 1),
                "objects": len(one.objects),
                "lists": one.counters.lists,
                "watches": one.counters.watches,
                "failures": one.counters.failures,
                "doubts": one.counters.doubts,
                "problem": one.problem,
            }
            for one in self.all
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


# --- What is kept of objects ---------------------------------------------------------------------------------------------
def _stripped(thing: Manifest) -> Manifest:
    """Less the bookkeeping of server-side apply, which is half of many objects."""
    (thing.get("metadata") or {}).pop("managedFields", None)
    return thing


def _node(node: Manifest) -> Manifest:
    """Less the names of the images that it has, which make up most of it."""
    (node.get("status") or {}).pop("images", None)
    return _stripped(node)


def _claim(claim: Manifest, portal: str) -> Manifest | None:
    """Those of this portal, and whatever else holds a part of our cards."""
    ours = labels(claim).get(names.PORTAL) == portal
    return _stripped(claim) if ours or cards.parts_of(claim) else None


def _slice(slice_: Manifest) -> Manifest | None:
    return _stripped(slice_) if cards.is_ours(slice_) else None


def _event(event: Manifest) -> Manifest | None:
    return _stripped(event) if event.get("reason") in observing.TROUBLES else None
