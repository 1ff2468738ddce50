"""A real agent over a real simulated node, and real CUDA programs in its claims. Nothing here is pretended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROJECT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("TESSERA_LIBRARIES", PROJECT / "build" / "vcuda"))  # another build: sanitizers, say
SIM_TOOL = BUILD / "sim" / "tessera-sim"
BOUND = 60.0  # s; only says when a test gives up, never how long something may take
GIB = 1024**3
ACCOUNT = 300_123 if os.geteuid() == 0 else os.geteuid()  # that the programs run as

_NEEDED = [BUILD / folder / name for folder in ("sim", "lib") for name in ("libcuda.so.1", "libnvidia-ml.so.1")]


@pytest.fixture(scope="session")
def libraries() -> Path:
    if not all(path.exists() for path in _NEEDED):
        subprocess.run(["make", "-s", "vcuda"], cwd=PROJECT, check=True, stdout=sys.stderr)
    return BUILD


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account may walk through; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="tessera-agent-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def node_time() -> str:
    """How time passes on the node; a module of tests may say otherwise."""
    return "real"


@pytest.fixture
def sim_node(place: Path, libraries: Path, node_time: str) -> Path:
    """An H100 and a T4."""
    assert libraries == BUILD
    sim_tool("create", place / "node", "--cards", "h100,t4", "--time", node_time)
    return place / "node"


def sim_tool(*arguments: str | Path) -> None:
    subprocess.run([SIM_TOOL, *arguments], check=True, stdout=sys.stderr)


@dataclass
class Program:
    """A running program of a claim; see program.py for what it can be told."""

    process: asyncio.subprocess.Process
    pid: int = 0

    async def tell(self, command: str) -> dict[str, Any]:
        await self.start(command)
        return await self.answer()

    async def start(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        await self.process.stdin.drain()

    async def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), BOUND)
        assert line, "the program ended without an answer"
        found: dict[str, Any] = json.loads(line)
        return found

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), BOUND)

    async def kill(self) -> None:
        self.process.kill()
        await asyncio.wait_for(self.process.wait(), BOUND)


@dataclass
class Agent:
    """The agent's process and a client of its socket."""

    socket: Path
    state: Path
    process: asyncio.subprocess.Process
    client: aiohttp.ClientSession
    log: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return any("Ready at" in line for line in self.log)

    async def ask(self, method: str, path: str, body: object = None, *, expect: int = 200) -> Any:
        async with self.client.request(method, f"http://agent{path}", json=body) as response:
            text = await response.text()
            assert response.status == expect, f"{method} {path}: {response.status} {text}"
            return json.loads(text) if text and response.content_type == "application/json" else text

    async def card(self, model: str) -> dict[str, Any]:
        cards = (await self.ask("GET", "/cards"))["cards"]
        found: dict[str, Any] = next(card for card in cards if model in card["model"])
        return found

    async def samples_until(self, subject: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first sample of the subject for which `holds(sample)` is true."""
        last: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(BOUND), self.client.get("http://agent/samples") as response:
                async for line in response.content:
                    for sample in filter(lambda s: s["subject"] == subject, json.loads(line)):
                        last = dict(sample)
                        if holds(last):
                            return last
        except TimeoutError:
            pass
        raise AssertionError(f"no sample of {subject} was as wanted; the last one: {last}; log: {self.log}")

    async def whole_second(self) -> None:
        """Until a second has been sampled that began after this call."""
        async with asyncio.timeout(BOUND), self.client.get("http://agent/samples") as response:
            for _ in range(3):  # the newest one, the present one, and the next
                assert await response.content.readline()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), BOUND)


class Site:
    """Starts agents and programs, and ends those that a test leaves behind."""

    def __init__(self, place: Path, sim_node: Path, stack: AsyncExitStack) -> None:
        self.place = place
        self.sim_node = sim_node
        self._stack = stack

    async def agent(self, *, simulated: bool = True) -> Agent:
        """Started and ready: its socket answers. Again, after the first has ended: a restart on the same state."""
        options: list[str | Path] = ["--sim-node", self.sim_node] if simulated else []
        return await self._stack.enter_async_context(running_agent(self.place, *options))

    async def claim(self, agent: Agent, name: str, **part: Any) -> dict[str, Any]:
        """A claim on the H100 unless `uuid` says otherwise; the agent's answer."""
        device = {"memory": 8 * GIB, "compute": 300, "ceiling": 1000, **part}
        device.setdefault("uuid", (await agent.card("H100"))["uuid"])
        body = {"devices": [device], "uid": ACCOUNT, "gid": ACCOUNT}
        answer: dict[str, Any] = await agent.ask("PUT", f"/claims/{name}", body, expect=201)
        return answer

    async def program(self, claim: dict[str, Any], *, library: str | None = None, context: bool = True) -> Program:
        """A program of the claim, under the claim's account; with `library`, one that goes around ours."""
        program = await self._stack.enter_async_context(running_program(claim, library))
        if context:
            opened = await program.tell("open")
            assert opened["ok"], opened
        return program


@pytest.fixture
async def site(place: Path, sim_node: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(place, sim_node, stack)


async def start_agent(*options: str | Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "vcuda.node", "--libraries", BUILD, *options, cwd=PROJECT, stderr=asyncio.subprocess.PIPE
    )


@asynccontextmanager
async def running_agent(place: Path, *options: str | Path) -> AsyncIterator[Agent]:
    state, socket = place / "state", place / "agent.sock"
    process = await start_agent("--state", state, "--socket", socket, *options)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as client:
        agent, ready = Agent(socket, state, process, client), asyncio.Event()
        reader = asyncio.create_task(_follow_log(agent, ready))
        try:
            await asyncio.wait_for(ready.wait(), BOUND)
            assert agent.ready, agent.log
            yield agent
        finally:
            if process.returncode is None:
                await agent.kill()
            await reader


async def _follow_log(agent: Agent, ready: asyncio.Event) -> None:
    """To its end, so that the pipe never fills; `ready` is set when the agent says so, or ends."""
    assert agent.process.stderr is not None
    async for line in agent.process.stderr:
        agent.log.append(line.decode())
        if agent.ready:
            ready.set()
    ready.set()


@asynccontextmanager
async def running_program(claim: dict[str, Any], library: str | None) -> AsyncIterator[Program]:
    command = ["/usr/bin/python3", "-I", "-S", "-c", (Path(__file__).parent / "program.py").read_text()]
    if library is not None:
        command += ["--library", library]
    account: dict[str, Any] = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd="/",
        env=claim["env"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        **account,
    )
    program = Program(process)
    try:
        program.pid = (await program.answer())["pid"]
        yield program
    finally:
        if process.returncode is None:
            await program.kill()
