"""The kubernetes driver: runs are pods, shares of cards are claims, and the cluster's own scheduler places them.

A started driver (the controller's) watches the cluster and makes and ends runs. One that was not started only reads, in any process
and any event loop: it asks the API server each time, but for `dial`, which is asked for every request and keeps a watch of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from apps.cluster.drivers.kubernetes import resizing
from apps.cluster.drivers.kubernetes.adapters import Choice
from apps.cluster.drivers.kubernetes.api import ApiError, ClusterUnavailable, Connection
from apps.cluster.drivers.kubernetes.comparing import Comparer
from apps.cluster.drivers.kubernetes.diagnosis import Diagnoser
from apps.cluster.drivers.kubernetes.logs import Logs
from apps.cluster.drivers.kubernetes.making import refusal
from apps.cluster.drivers.kubernetes.reading import Dialler, Reader
from apps.cluster.drivers.kubernetes.rebuild import rebuild
from apps.cluster.drivers.kubernetes.session import Choices, Session
from apps.cluster.drivers.kubernetes.settings import Rules, Timing
from apps.cluster.drivers.kubernetes.terminals import Terminal, open_terminal
from apps.cluster.drivers.kubernetes.ways import is_reachable
from apps.cluster.drivers.local.feed import Feed
from apps.cluster.specs import Endpoint, Inventory, LogChunk, Observation, RunSpec, Sample
from apps.core.errors import NotFound, Unavailable
from apps.core.share import GpuShare

log = structlog.get_logger(__name__)


class KubernetesCluster:
    """`apps.cluster.protocol.Cluster` on a Kubernetes.

    `adapter` names how cards are cut, by default the best that the cluster offers; `reach` is "direct" (pods' addresses) or "forward"
    (through the API server), by default direct from inside of the cluster only.
    """

    def __init__(
        self,
        connection: Connection | None = None,
        *,
        rules: Rules | None = None,
        timing: Timing | None = None,
        adapter: str = "",
        reach: str = "",
        agent_token_file: str = "",
    ) -> None:
        if reach not in ("", "direct", "forward"):
            raise ValueError(f"pods are reached “direct” or by “forward”, not “{reach}”")
        connection = connection or Connection()
        forward = reach == "forward" or (not reach and not connection.inside)
        self._choices = Choices(connection, rules or Rules(), timing or Timing(), adapter, forward, agent_token_file)
        self._reader = Reader(connection, self._choices.rules, self._choices.timing, adapter)
        self._diallers: WeakKeyDictionary[asyncio.AbstractEventLoop, Dialler] = WeakKeyDictionary()
        self._feed = Feed()
        self._logs = Logs()
        self._session: Session | None = None

    # --- Life of the driver ----------------------------------------------------------------------------------------------
    async def start(self) -> None:
        made = Session(self._choices, self._feed)
        try:
            await made.open()
        except BaseException:
            await made.close()
            raise
        self._session = made

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        dialler = self._diallers.pop(asyncio.get_running_loop(), None)
        if dialler is not None:
            await dialler.close()
        self._feed.close()

    def _started(self) -> Session:
        if self._session is None:
            raise Unavailable("This process does not look after the runs; the controller does.")
        return self._session

    # --- What the controller asks ----------------------------------------------------------------------------------------
    async def apply(self, spec: RunSpec) -> Observation:
        return await self._started().apply(spec)

    async def delete(self, uid: str, *, grace_seconds: int) -> Observation:
        return await self._started().delete(uid, grace_seconds)

    async def resize(self, uid: str, run: int, share: GpuShare) -> GpuShare:
        return await self._started().resize(uid, run, share)

    async def get(self, uid: str) -> Observation:
        return await self._reader.observation(uid) if self._session is None else self._session.seen(uid)

    async def list(self) -> Sequence[Observation]:
        return await self._reader.observations() if self._session is None else self._session.all_seen()

    async def specs(self) -> Sequence[RunSpec]:
        found = rebuild(self._started().world.all_pods())
        for unreadable in found.unreadable:
            log.warning(
                "run_unreadable", pod=unreadable.pod, namespace=unreadable.namespace, problem=unreadable.problem
            )
        world = self._started().world
        return [
            resizing.as_it_is(one.spec, world.claims_of(pod))
            for one in found.workloads
            if one.wanted and (pod := world.newest(one.uid)) is not None
        ]

    def observe(self) -> AsyncIterator[Observation]:
        return self._feed.subscribe()

    async def inventory(self) -> Inventory:
        return await self._reader.inventory() if self._session is None else self._session.inventory()

    def samples(self) -> AsyncIterator[Sequence[Sample]]:
        return self._started().samples()

    async def remove_volume(self, name: str) -> None:
        await self._started().remove_volume(name)

    # --- What everybody asks ---------------------------------------------------------------------------------------------
    async def logs(self, uid: str, *, offset: int = 0, limit: int = 65536) -> LogChunk:
        session = self._session
        async with self._reader.api() if session is None else nullcontext(session.api) as api:
            known = session.world.newest(uid) if session is not None else None
            pod = known or await self._reader.newest(api, uid)
            if pod is None:
                raise NotFound(f"There is no run {uid}, so it has no output.")
            return await self._logs.read(api, pod, offset=offset, limit=limit)

    async def dial(self, uid: str, port: str) -> Endpoint:
        session = self._session
        if session is None:
            return await self._dialler().endpoint(uid, port)
        pod = session.world.newest(uid)
        spec = session.world.spec_of(pod) if pod is not None else None
        if pod is None or spec is None:
            raise NotFound(f"Run {uid} has no open port “{port}” now.")
        if not session.watches.pods.fresh:
            raise ClusterUnavailable("The cluster cannot be watched now, so addresses may be another's.")
        return await session.ways.endpoint(pod, spec, port)

    def _dialler(self) -> Dialler:
        loop = asyncio.get_running_loop()
        if loop not in self._diallers:
            choices = self._choices
            made = Dialler(choices.connection, choices.rules, choices.timing, forward=choices.forward)
            self._diallers[loop] = made
        return self._diallers[loop]

    # --- Beyond the protocol ---------------------------------------------------------------------------------------------
    async def exec(self, uid: str, command: Sequence[str], *, tty: bool = True) -> Terminal:
        """A program in the running container; whoever opens it closes it. Raises NotFound where nothing runs."""
        stack = AsyncExitStack()
        try:
            api = await stack.enter_async_context(self._reader.api())
            pod = await self._reader.newest(api, uid)
            if pod is None or not is_reachable(pod):
                raise NotFound(f"Run {uid} has no running program.")
            terminal = await open_terminal(api, pod, command, tty=tty)
        except ApiError as error:
            await stack.aclose()
            raise refusal(error) from error
        except BaseException:
            await stack.aclose()
            raise
        terminal.owns(stack)
        return terminal

    def comparer(self) -> Comparer:
        """Works in a driver that was not started too."""
        return Comparer(self._reader, self._choices.rules, self._choices.timing)

    def choice(self) -> Choice:
        """How cards are cut here, and why: for the operator."""
        return self._started().choice()

    def health(self) -> dict[str, Any]:
        """Empty until it was started."""
        return {} if self._session is None else self._session.health()

    def diagnoser(self) -> Diagnoser:
        """Works in a driver that was not started too."""
        return Diagnoser(self._reader, self._choices.rules)
