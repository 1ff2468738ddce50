"""A simulated node and the programs that run on it, as the tests see them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
BUILD = Path(os.environ.get("TESSERA_SIM_BUILD", ROOT / "build" / "vcuda" / "sim"))
SECONDS = 120  # longest that one client may take, on a busy machine


class Node:
    """A simulated node and the way to run programs on it."""

    def __init__(self, path: Path, python: Path) -> None:
        self.path = path
        self.python = python

    def environment(self, **extra: str) -> dict[str, str]:
        return {
            **os.environ,
            "TESSERA_SIM_NODE": str(self.path),
            "LD_LIBRARY_PATH": str(BUILD),
            "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
            **extra,
        }

    def run(self, *command: str, **extra: str) -> str:
        """Standard output of a program of the clients' environment; fails the test with its errors."""
        program = str(self.python.parent / command[0])
        done = subprocess.run(
            [program, *command[1:]],
            env=self.environment(**extra),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def script(self, name: str, **extra: str) -> str:
        return self.run("python", str(HERE / "clients" / name), **extra)

    def tool(self, command: str, *arguments: str) -> str:
        return subprocess.run(
            [BUILD / "tessera-sim", command, str(self.path), *arguments], check=True, capture_output=True, text=True
        ).stdout
