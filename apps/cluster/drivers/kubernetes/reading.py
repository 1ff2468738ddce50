"""Answers of a driver that was not started: one look at the API server each, from any event loop; `dial` keeps a watch of its own."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from apps.cluster.drivers.kubernetes import kinds, names, observing
from apps.cluster.drivers.kubernetes.adapters import Choice, Offers, choose
from apps.cluster.drivers.kubernetes.api import Api, ApiError, ClusterUnavailable, Connection
from apps.cluster.drivers.kubernetes.explain import why_waiting
from apps.cluster.drivers.kubernetes.inventory import inventory, shown_cards
from apps.cluster.drivers.kubernetes.making import Maker, refusal
from apps.cluster.drivers.kubernetes.objects import Manifest, id_of, name_of, namespace_of, node_of, run_of, workload_of
from apps.cluster.drivers.kubernetes.reflector import Reflector
from apps.cluster.drivers.kubernetes.runs import absent
from apps.cluster.drivers.kubernetes.settings import Rules, Timing
from apps.cluster.drivers.kubernetes.ways import Ways, is_reachable
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.specs import Endpoint, Inventory, Observation
from apps.core import clock
from apps.core.errors import NotFound, PortalError, Unavailable

_AGAIN = 2.0  # s between attempts to find a way to the cluster


class Reader:
    def __init__(self, connection: Connection, rules: Rules, timing: Timing, adapter: str) -> None:
        self._connection, self._rules, self._timing, self.adapter = connection, rules, timing, adapter

    @asynccontextmanager
    async def api(self) -> AsyncIterator[Api]:
        """A connection for one answer. What the server refuses is a PortalError outside of it."""
        try:
            async with Api(self._connection, timeout=self._timing.request) as made:
                yield made
        except ApiError as error:
            raise refusal(error) from error

    async def newest(self, api: Api, uid: str) -> Manifest | None:
        world = World()
        await self._pods(api, world, uid)
        return world.newest(uid)

    async def observations(self, uid: str = "") -> Sequence[Observation]:
        """Of one workload, or of all."""
        async with self.api() as api:
            world = World()
            await self._pods(api, world, uid)
            if world.pods:
                await self._surroundings(api, world)
            choice = self._choice(world)
            pods = [pod for each in world.pods if (pod := world.newest(each)) is not None]
            return [self._observed(world, choice, pod) for pod in pods]

    async def observation(self, uid: str) -> Observation:
        return next(iter(await self.observations(uid)), absent(uid))

    async def inventory(self) -> Inventory:
        async with self.api() as api:
            world = World()
            await self._pods(api, world, "")
            await self._surroundings(api, world)
            return inventory(world, self._choice(world), silent_agents=False)

    def _observed(self, world: World, choice: Choice, pod: Manifest) -> Observation:
        around = observing.Around(
            spec=world.spec_of(pod),
            node=world.nodes.get(node_of(pod)),
            cards=world.cards_of(pod),
            events=list(world.troubles.get(id_of(pod), {}).values()),
            stuck=timedelta(seconds=self._timing.stuck),
            explain=lambda spec, message: why_waiting(spec.resources, shown_cards(world, choice), message),
        )
        return observing.observe(pod, around, clock.now())

    def _choice(self, world: World) -> Choice:
        offers = Offers(world.claims_served, sorted(world.classes), world.slices, list(world.nodes.values()))
        return choose(offers, self.adapter)

    async def _pods(self, api: Api, world: World, uid: str) -> None:
        labels = names.portal_labels(self._rules.portal)
        if uid:
            labels[names.WORKLOAD] = names.key_of(uid)
        for pod in await api.find(kinds.PODS, params={"labelSelector": names.selector(labels)}):
            world.pod_changed(None, pod)

    async def _surroundings(self, api: Api, world: World) -> None:
        slices = {"fieldSelector": f"spec.driver={names.DRIVER}"}
        try:
            claims, cut, classes = await asyncio.gather(
                api.find(kinds.CLAIMS), api.find(kinds.SLICES, params=slices), api.find(kinds.CLASSES)
            )
        except ApiError as error:
            if error.status != 404:
                raise
            world.claims_served, claims, cut, classes = False, [], [], []
        for node in await api.find(kinds.NODES):
            world.node_changed(None, node)
        for thing in claims:
            world.claim_changed(None, thing)
        for thing in cut:
            world.slice_changed(None, thing)
        for thing in classes:
            world.class_changed(None, thing)


class Dialler:
    """Knows where every run listens, by a watch in the event loop that made it, since it is asked for each request of every notebook."""

    def __init__(self, connection: Connection, rules: Rules, timing: Timing, *, forward: bool) -> None:
        self._timing = timing
        self._api = Api(connection, timeout=timing.request)
        self._world = World()
        self._reader = Reader(connection, rules, timing, "")
        self._maker = Maker(self._api, rules, self._world, lambda _: None)
        self._ways = Ways(self._api, rules, self._maker.token, forward=forward)
        mine = {"labelSelector": names.selector(names.portal_labels(rules.portal))}
        self._pods = Reflector(self._api, kinds.PODS, self._changed, params=mine, consistent=True, timing=timing)
        self._getting: set[asyncio.Task[None]] = set()
        self._following = asyncio.get_running_loop().create_task(self._follow(), name="watch pods to dial")

    async def _follow(self) -> None:
        while True:
            try:
                await self._api.open()
                break
            except Unavailable as problem:  # its kubeconfig may be written a moment later
                self._pods.problem = str(problem.message)
                await asyncio.sleep(_AGAIN)
        try:
            await self._pods.run()
        finally:
            await self._ways.close()
            await self._api.close()

    def _changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self._world.pod_changed(before, after)
        if after is None and before is not None:
            self._ways.drop(before)
            self._maker.tokens.pop(name_of(before), None)
        elif before is not None and after is not None and is_reachable(after) and not is_reachable(before):
            self._fetch(after)

    def _fetch(self, pod: Manifest) -> None:
        """The token of a run that has just begun, while its program comes up: the first request waits for it otherwise."""
        getting = asyncio.get_running_loop().create_task(self._token_of(pod), name=f"token of {name_of(pod)}")
        self._getting.add(getting)
        getting.add_done_callback(self._getting.discard)

    async def _token_of(self, pod: Manifest) -> None:
        with suppress(PortalError, ApiError):  # whoever asks for it is told
            await self._maker.token(namespace_of(pod), workload_of(pod), run_of(pod))

    async def endpoint(self, uid: str, port: str) -> Endpoint:
        try:
            async with asyncio.timeout(self._timing.request):
                await self._pods.synced.wait()
        except TimeoutError:
            raise ClusterUnavailable(f"The cluster could not be listed: {self._pods.problem}") from None
        pod = self._world.newest(uid)
        if pod is None or not is_reachable(pod) or not self._pods.fresh:
            # Perhaps it is only that the watch is behind, or down: an address that is no longer this run's must not be given out.
            pod = await self._reader.newest(self._api, uid)
            if pod is not None:
                self._pods.absorb(pod)
        spec = self._world.spec_of(pod) if pod is not None else None
        if pod is None or spec is None:
            raise NotFound(f"Run {uid} has no open port “{port}” now.")
        return await self._ways.endpoint(pod, spec, port)

    async def close(self) -> None:
        tasks = (self._following, *self._getting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
