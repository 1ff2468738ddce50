"""Tenants' programs, started and stopped; what surrounds them is the limiter under test, or nothing."""

from __future__ import annotations

import os
import subprocess

from vcuda.bench.simnode import SimNode


def bare(node: SimNode) -> dict[str, str]:
    """The driver without any limiter: the control."""
    return {"LD_LIBRARY_PATH": str(node.build / "sim"), "TESSERA_SIM_NODE": str(node.path)}


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

    def wait(self) -> None:
        """Until each has ended by itself."""
        for process in self.processes:
            process.communicate()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
