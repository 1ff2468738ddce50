"""CUDA programs inside pods, told what to do over their standard input."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.cluster.parts import PROJECT
from tests.cluster.pods import BOUND

_PROGRAM: Final = (PROJECT / "tests" / "agent" / "program.py").read_text()

Json = dict[str, Any]


@contextmanager
def running(words: Sequence[str], *, library: str = "", context: bool = True) -> Iterator[Program]:
    """tests/agent/program.py where `words` lead to: `kubectl exec … -- env -i`, say. `library` is loaded in the place of what the pod has."""
    words = [*words, "python3", "-I", "-S", "-c", _PROGRAM, *(["--library", library] if library else [])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        program = Program(process)
        try:
            program.inner_pid = program.answer()["pid"]
            if context:
                opened = program.tell("open")
                assert opened["ok"], opened
            yield program
        finally:
            program.end()


class Program:
    """See tests/agent/program.py for what it can be told. `inner_pid` is its number inside the container."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.inner_pid = 0

    def tell(self, command: str) -> Json:
        self.begin(command)
        return self.answer()

    def begin(self, command: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Json:
        assert self._process.stdout
        assert select.select([self._process.stdout], [], [], BOUND)[0], "the program says nothing"
        line = self._process.stdout.readline()
        assert line, "the program ended without an answer"
        found: Json = json.loads(line)
        return found

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(BOUND)
        except subprocess.TimeoutExpired:
            self._process.kill()


def host_pid(inner: int, pod_uid: str) -> int:
    """This machine's number of a process in a pod, whose containers' control groups carry the pod's uid."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and pod_uid in _read(folder / "cgroup").replace("_", "-"):
            numbers = _read(folder / "status").partition("NSpid:")[2].splitlines()[0].split()
            if numbers[-1] == str(inner):
                return int(folder.name)
    raise AssertionError(f"no process {inner} in pod {pod_uid}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
