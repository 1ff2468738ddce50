"""Wiring: options, the driver, the state's lock, the socket, and a clean end. `python -m vcuda.node`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vcuda.node import nvidia
from vcuda.node.backends.choose import choose
from vcuda.node.clock import Clock, MonotonicClock, SimClock
from vcuda.node.errors import NodeError, Unavailable
from vcuda.node.node import Node
from vcuda.node.nvml import Gauges, Look, NoDriver, Nvml
from vcuda.node.options import Options, parse
from vcuda.node.prepare import CUDA, NVML, Libraries
from vcuda.node.server import Api, SampleFeed, serve_http
from vcuda.node.standby import await_state
from vcuda.node.state import make_state, take_state
from vcuda.node.ticker import Ticker

if TYPE_CHECKING:
    from vcuda.node.dra.service import DraDriver

_LATE_NS: Final = 10_000_000_000  # without a tick: nothing new should come to the cards
_SOCKET_PATH: Final = 107  # bytes, the kernel's limit
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Driver:
    """What the machine has: cards, time, and the libraries that programs need (None: no cards)."""

    nvml: Nvml
    clock: Clock
    libraries: Libraries | None
    simulated: bool


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return asyncio.run(run(options))
    except NodeError as error:
        print(f"The node agent cannot start. {error}", file=sys.stderr)
        return 1


async def run(options: Options) -> int:
    """Serve until SIGTERM or SIGINT. 0 after a clean end, 1 when the node's clock failed."""
    claims = make_state(options.state, closed=options.kubernetes is not None)
    life = Life()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, life.stopping.set)
    if options.kubernetes is None:
        return await work(claims, options, life, take_state(options.state))
    from vcuda.node.dra.service import DraDriver  # with gRPC and the Kubernetes client, which nobody else needs

    dra = DraDriver(options.kubernetes, options.state, life.fail)
    try:
        await dra.appear()
        lock = await await_state(options, dra.status, life.stopping)
        return 0 if lock is None else await work(claims, options, life, lock, dra)
    finally:
        await dra.stop()


async def work(claims: Path, options: Options, life: Life, lock: int, dra: DraDriver | None = None) -> int:
    """From the moment at which the state is ours until the end."""
    try:
        driver = open_driver(options)
        node = make_node(claims, driver, options)
        node.adopt()
        try:
            return await Agent(node, driver, options, life, dra).serve()
        finally:
            node.close()
            driver.nvml.close()
    finally:
        os.close(lock)


class Life:
    """Whether the agent is to end, and how."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.failed = False

    def fail(self) -> None:
        self.failed = True
        self.stopping.set()


def make_node(claims: Path, driver: Driver, options: Options) -> Node:
    """With what keeps the limits here, which every card tells."""
    cards = driver.nvml.cards()
    backends = choose(options.backend, [card.uuid for card in cards], contained=options.kubernetes is not None)
    log.info(
        "Limits are kept by %s (%s), whole cards by %s.", backends.parts.name, backends.reason, backends.whole.name
    )
    return Node(
        root=claims,
        cards=[replace(card, attributes={**card.attributes, **backends.told()}) for card in cards],
        libraries=driver.libraries,
        simulated=driver.simulated,
        backends=backends,
    )


class Agent:
    """Node, heartbeat, HTTP and, in a cluster, kubelet's side together, from the first tick to a clean end."""

    def __init__(self, node: Node, driver: Driver, options: Options, life: Life, dra: DraDriver | None = None) -> None:
        self._node = node
        self._driver = driver
        self._options = options
        self._life = life
        self._dra = dra
        self._feed = SampleFeed()

    async def serve(self) -> int:
        """The socket appears when the agent can answer, and is gone when it no longer does."""
        address = self._options.socket
        ticker = Ticker(self._node, self._driver.nvml, self._driver.clock, self._take_in, self._life.fail)
        await ticker.first()
        refresh = self._refresh if self._options.kubernetes else None
        api = Api(self._node, self._driver.clock, self._feed, self._status, refresh)
        runners = [await serve_http(api.application(), listen(address))]
        if self._options.listen:
            runners.append(await serve_http(api.reading(self._options.listen.token), self._options.listen.open()))
        if self._dra:
            await self._dra.start(self._node, self._driver.libraries, self._illness)
        ticker.start()
        log.info("Ready at %s with %d cards and %d claims.", address, len(self._node.cards), len(self._node.claims))
        await self._life.stopping.wait()
        address.unlink(missing_ok=True)
        if self._dra:
            await self._dra.stop()
        await ticker.stop()
        await self._feed.close()
        for runner in runners:
            await runner.cleanup()
        log.info("Stopped; claims and programs stay.")
        return 1 if self._life.failed else 0

    async def _take_in(self, looks: Mapping[str, Look], gauges: Mapping[str, Gauges] | None, now_ns: int) -> None:
        self._node.tick(looks, now_ns, self._driver.clock.driver_us(now_ns))
        if gauges is not None:
            await self._feed.publish(self._node.second(gauges, now_ns, self._driver.clock.wall(now_ns)))

    def _illness(self) -> dict[str, str]:
        """Why each card cannot be trusted; also when nothing has been seen of it for a while."""
        ticked = self._node.ticked_ns
        late = ticked is None or self._driver.clock.now_ns() - ticked > _LATE_NS
        return {uuid: card.illness or ("late" if late else "") for uuid, card in self._node.cards.items()}

    def _status(self) -> dict[str, Any]:
        return {"kubernetes": self._dra.status()} if self._dra else {}

    async def _refresh(self, name: str) -> None:
        if self._dra:
            await self._dra.refresh(name)


def open_driver(options: Options) -> Driver:
    """The simulated node, else the machine's NVIDIA driver, else a machine without cards."""
    sim_node, libraries = options.sim_node, options.libraries
    shim = libraries / "lib"
    if sim_node is None:
        found = nvidia.system_driver(shim, options.root)
        if found is None:
            return Driver(NoDriver(), MonotonicClock(), None, simulated=False)
        _, paths = found
        return Driver(
            nvidia.NvidiaMl(), MonotonicClock(), Libraries(shim=shim, driver=paths, sim_node=None), simulated=False
        )
    if not sim_node.exists():
        raise Unavailable(
            f"There is no simulated node at {sim_node}.", hint="Make one: tessera-sim create PATH --cards h100."
        )
    driver = {name: libraries / "sim" / name for name in (CUDA, NVML)}
    os.environ["TESSERA_SIM_NODE"] = str(sim_node)
    try:
        library = nvidia.load(driver[NVML])
    except OSError as error:
        raise Unavailable(
            f"The simulated driver cannot be loaded: {error}.", hint="Build it with `make vcuda`."
        ) from None
    return Driver(
        nvidia.NvidiaMl(),
        SimClock(library),
        Libraries(shim=shim, driver=driver, sim_node=sim_node.resolve()),
        simulated=True,
    )


def listen(address: Path) -> socket.socket:
    """A socket for our account alone; it appears under its name when it listens, in the place of a dead agent's."""
    if len(os.fsencode(address)) + len(".new") > _SOCKET_PATH:
        raise Unavailable(
            f"The socket's path is too long for the kernel: {address}.", hint=f"Use at most {_SOCKET_PATH - 4} bytes."
        )
    address.parent.mkdir(parents=True, exist_ok=True)
    fresh = address.with_name(address.name + ".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(fresh))
    finally:
        os.umask(before)
    listener.listen(128)
    fresh.rename(address)
    return listener
