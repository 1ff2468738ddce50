"""A place for the local driver: state that every account may walk through, an environment with one program, on demand an agent."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from apps.cluster.drivers.local import LocalCluster
from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.core.share import GIB, GpuShare, Resources

PROJECT = Path(__file__).parents[2]
BUILD = PROJECT / "build" / "vcuda"
_BUILT = [BUILD / part / name for part in ("sim", "lib") for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
BOUND = 90.0  # s


class LocalSite:
    keeps_accounts_apart = os.geteuid() == 0

    def __init__(self, state: Path) -> None:
        self.state = state
        self.socket = state / "agent.sock"
        self.environments = state / "environments"
        self._install_program(self.environments / "contract" / "bin")

    @staticmethod
    def _install_program(folder: Path) -> None:
        folder.mkdir(parents=True)
        # The system's Python, since accounts other than ours must be able to run it.
        python = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
        program = folder / "exercise"
        program.write_text(f"#!{python}\n{(Path(__file__).parent / 'program.py').read_text()}")
        program.chmod(0o755)

    def cluster(self) -> LocalCluster:
        return LocalCluster(self.state, self.socket, self.environments)

    def spec(self, uid: str, *words: str, run: int = 1, gpu: GpuShare | None = None, **changes: Any) -> RunSpec:
        """A run of program.py; `serve` unless words say otherwise. It answers on its port when it serves."""
        words = words or ("serve",)
        serves = words[0] in ("serve", "alone", "deaf", "mute", "flood")
        values: dict[str, Any] = {
            "uid": uid,
            "run": run,
            "kind": "experiment",
            "name": f"试验 {uid}",
            "slug": uid,
            "tenant": "physics",
            "owner": "ada",
            "account": "physics/ada",
            "environment": "contract",
            "command": ("exercise", *words),
            "resources": Resources(gpu=gpu, cpu_milli=1000, ram=GIB),
            "ports": (Port("http"),) if serves else (),
            "volumes": (Volume(f"home-{uid}", "~"),),
            "probe": Probe("http", "/") if serves else None,
            "grace_seconds": 5,
        }
        return RunSpec(**values | changes)

    @asynccontextmanager
    async def cards(self, models: str = "h100") -> AsyncIterator[asyncio.subprocess.Process]:
        """A real agent over a simulated node; ready."""
        node = self._node(models)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vcuda.node", "--state", self.state, "--socket", self.socket, "--sim-node", node),
            cwd=PROJECT,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            drain = await self._ready(process)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await drain

    @staticmethod
    async def _ready(process: asyncio.subprocess.Process) -> asyncio.Task[bytes]:
        """Wait for the agent to say so; returns what reads the rest of its output, so that the pipe never fills."""
        assert process.stderr is not None
        said: list[bytes] = []
        async with asyncio.timeout(BOUND):
            while b"Ready at" not in (line := await process.stderr.readline()):
                assert line, b"".join(said).decode()
                said.append(line)
        return asyncio.create_task(process.stderr.read())

    def _node(self, models: str) -> Path:
        if not all(path.exists() for path in _BUILT):
            subprocess.run(["make", "-s", "vcuda"], cwd=PROJECT, check=True, stdout=sys.stderr)
        folder = self.state / "sim"
        folder.mkdir(exist_ok=True)
        if not (folder / "node").exists():
            subprocess.run([BUILD / "sim" / "tessera-sim", "create", folder / "node", "--cards", models], check=True)
        return folder / "node"


@contextmanager
def local_site() -> Iterator[LocalSite]:
    state = Path(tempfile.mkdtemp(prefix="tessera-local-"))
    try:
        yield LocalSite(state)
    finally:
        shutil.rmtree(state)
