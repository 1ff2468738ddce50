"""Wiring: options, the driver, the state's lock, the socket, and a clean end. `python -m vcuda.node`."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from vcuda.node import nvidia
from vcuda.node.clock import Clock, MonotonicClock, SimClock
from vcuda.node.errors import NodeError, Unavailable
from vcuda.node.node import Node
from vcuda.node.nvml import Gauges, Look, NoDriver, Nvml
from vcuda.node.prepare import CUDA, NVML, Libraries
from vcuda.node.server import Api, SampleFeed
from vcuda.node.ticker import Ticker

_LIBRARIES: Final = Path(__file__).resolve().parents[2] / "build" / "vcuda"
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
    options = _parse(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return asyncio.run(run(options.state, options.socket, options.sim_node, options.libraries))
    except NodeError as error:
        print(f"The node agent cannot start. {error}", file=sys.stderr)
        return 1


async def run(state: Path, address: Path, sim_node: Path | None, libraries: Path) -> int:
    """Serve until SIGTERM or SIGINT. 0 after a clean end, 1 when the node's clock failed."""
    claims = _make_state(state)
    lock = take_state(state)
    driver = open_driver(sim_node, libraries)
    node = Node(root=claims, cards=driver.nvml.cards(), libraries=driver.libraries, simulated=driver.simulated)
    node.adopt()
    try:
        return await Agent(node, driver).serve(address)
    finally:
        node.close()
        driver.nvml.close()
        os.close(lock)


class Agent:
    """Node, heartbeat and HTTP together, from the first tick to a clean end."""

    def __init__(self, node: Node, driver: Driver) -> None:
        self._node = node
        self._driver = driver
        self._feed = SampleFeed()
        self._stopping = asyncio.Event()
        self._failed = False

    async def serve(self, address: Path) -> int:
        """The socket appears when the agent can answer, and is gone when it no longer does."""
        ticker = Ticker(self._node, self._driver.nvml, self._driver.clock, self._take_in, self._fail)
        await ticker.first()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
        api = Api(self._node, self._driver.clock, self._feed)
        runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=2)
        await runner.setup()
        await web.SockSite(runner, listen(address)).start()
        ticker.start()
        log.info("Ready at %s with %d cards and %d claims.", address, len(self._node.cards), len(self._node.claims))
        await self._stopping.wait()
        _unlink(address)
        await ticker.stop()
        await self._feed.close()
        await runner.cleanup()
        log.info("Stopped; claims and programs stay.")
        return 1 if self._failed else 0

    async def _take_in(self, looks: Mapping[str, Look], gauges: Mapping[str, Gauges] | None, now_ns: int) -> None:
        self._node.tick(looks, now_ns)
        if gauges is not None:
            await self._feed.publish(self._node.second(gauges, now_ns, self._driver.clock.wall(now_ns)))

    def _fail(self) -> None:
        self._failed = True
        self._stopping.set()


def open_driver(sim_node: Path | None, libraries: Path) -> Driver:
    """The simulated node in `sim_node`, else the system's NVIDIA driver, else a machine without cards."""
    shim = libraries / "lib"
    if sim_node is None:
        found = nvidia.system_driver(shim)
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


def take_state(state: Path) -> int:
    """Hold the state's lock as long as this process lives. Raises Unavailable when another agent holds it."""
    lock = os.open(state / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise Unavailable(
            f"Another agent (process {holder}) works in {state}.",
            code="state_in_use",
            hint="Stop it first, or give this one a folder of its own with --state.",
        ) from None
    os.truncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)
    return lock


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


def _unlink(address: Path) -> None:
    address.unlink(missing_ok=True)


def _make_state(state: Path) -> Path:
    """The folder of the claims. Programs walk through it to their own claim; nobody may list it."""
    claims = state / "claims"
    for folder in (state, claims):
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o711)
    return claims.resolve()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m vcuda.node", description="Tessera's node agent.")
    parser.add_argument("--state", type=Path, required=True, help="folder of the agent; claims live below it")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to serve, mode 0600")
    parser.add_argument("--sim-node", type=Path, default=None, help="use the simulated node in this file")
    parser.add_argument(
        "--libraries", type=Path, default=_LIBRARIES, help="folder with lib/ and sim/ (default: build/vcuda)"
    )
    return parser.parse_args(arguments)
