"""A simulated node and the programs that run on it, as the tests see them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
BUILD = Path(os.environ.get("TESSERA_SIM_BUILD", ROOT / "build" / "vcuda" / "sim"))
SECONDS = 120  # longest that one client may take, on a busy machine
OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY


def environment(folder: Path, requirements: Path) -> Path:
    """The interpreter of an environment in `folder` with what is pinned by hash; made when missing or out of date."""
    mark = folder / f".complete-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    python = folder / "bin" / "python"
    if not mark.exists():
        uv = shutil.which("uv")
        assert uv, "uv makes the clients' environment: install it, or run the tests by `make test`"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", "3.11", str(folder)], check=True)
        words = ["--quiet", "--require-hashes", "--python", str(python), "-r", str(requirements)]
        subprocess.run([uv, "pip", "install", *words], check=True)
        mark.touch()
    return python


def clients() -> Path:
    """The interpreter of the clients in this folder."""
    return environment(ROOT / "build" / "sim-venv", HERE / "requirements.txt")


def static_runtime(folder: Path) -> Path:
    """A program with CUDA's runtime linked into it, compiled into `folder`."""
    library = next(clients().parents[1].glob("lib/python*/site-packages/nvidia/cuda_runtime/lib/libcudart_static.a"))
    program = folder / "static_runtime"
    source = HERE / "clients" / "static_runtime.c"
    subprocess.run(["cc", source, library, "-o", program, "-lpthread", "-ldl", "-lrt"], check=True)
    return program


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

    def script(self, name: str, *words: str, **extra: str) -> str:
        return self.run("python", str(HERE / "clients" / name), *words, **extra)

    def tool(self, command: str, *arguments: str) -> str:
        return subprocess.run(
            [BUILD / "tessera-sim", command, str(self.path), *arguments], check=True, capture_output=True, text=True
        ).stdout
