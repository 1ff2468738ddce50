"""Tenants' programs, started and stopped; what surrounds them is the limiter under test, or nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from vcuda.bench.simnode import SimNode


def bare(node: SimNode) -> dict[str, str]:
    """The driver without any limiter: the control."""
    return {"LD_LIBRARY_PATH": str(node.build / "sim"), "TESSERA_SIM_NODE": str(node.path)}


def foreign(node: SimNode, library: Path, *, memory: int, compute: int) -> dict[str, str]:
    """Another limiter's shared object before the driver, told its limits by the variables that its family uses. Bytes, per mille."""
    Path("/tmp/vgpulock").mkdir(exist_ok=True)  # noqa: S108  (a fixed place of that library)
    return bare(node) | {
        "LD_PRELOAD": str(library),
        "CUDA_DEVICE_MEMORY_LIMIT_0": f"{memory >> 20}m",
        "CUDA_DEVICE_SM_LIMIT": str(compute // 10),
        "GPU_CORE_UTILIZATION_POLICY": "force",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(node.folder / "foreign.cache"),
        "LIBCUDA_LOG_LEVEL": "0",
    }


class Programs:
    """`count` processes of one program of build/vcuda/lib/tests that say "ready" and then wait for a line."""

    def __init__(self, node: SimNode, environment: dict[str, str], words: list[str], *, count: int = 1) -> None:
        command = [str(node.build / "lib" / "tests" / words[0]), *words[1:]]
        pipe, surroundings = subprocess.PIPE, {"PATH": os.environ["PATH"]} | environment
        self.processes = [
            subprocess.Popen(command, env=surroundings, stdin=pipe, stdout=pipe, text=True) for _ in range(count)
        ]
        for process in self.processes:
            line = self.read(process)
            if line != "ready":
                self.kill()
                raise RuntimeError(f"{words[0]} said {line!r} instead of ready")

    @staticmethod
    def read(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def go(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("g\n")
            process.stdin.flush()

    def answers(self) -> list[list[int]]:
        """One line of numbers from each."""
        return [[int(word) for word in self.read(process).split()] for process in self.processes]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
