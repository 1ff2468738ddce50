"""One child process of the supervisor: started so that it cannot outlive us, its output to a file, its end an event."""

import asyncio
import ctypes
import logging
import logging.handlers
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_LOG_BYTES = 10 * 1024**2  # of one log file; one older file is kept
_PIECE = 65536  # bytes read at once, and the longest line that is kept whole


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. `account` is a user and group number to run under; `fds` are descriptors that it inherits.

    `last_signal` is what the kernel sends it should we be killed: one that it takes its own children along with.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    fds: Sequence[int] = ()
    account: int | None = None
    last_signal: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM


def _before_exec(parent: int, number: int) -> None:
    """In the child, after the change of account (which would undo it): end when the supervisor ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before we could ask for that
        os._exit(1)


class Child:
    """A running program in a session and process group of its own. Make it inside a running event loop, without threads."""

    def __init__(self, program: Program, log: logging.Logger, on_line: Callable[[str], None]) -> None:
        self.program = program
        self._log, self._on_line = log, on_line
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self.began_at = self._loop.time()
        self.ended: asyncio.Future[int] = self._loop.create_future()  # the return code, negative for a signal
        self._output, write_end = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._process = subprocess.Popen(program.argv, **self._how(write_end))
        finally:
            os.close(write_end)
        self._loop.add_reader(self._output, self._read)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    def _how(self, output: int) -> dict[str, Any]:
        program = self.program
        how: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": output,
            "stderr": output,
            "env": {**os.environ, **program.env},
            "pass_fds": tuple(program.fds),
            "start_new_session": True,
            "preexec_fn": partial(_before_exec, os.getpid(), program.last_signal),
        }
        if program.account is not None:
            how |= {"user": program.account, "group": program.account, "extra_groups": []}
        return how

    @property
    def pid(self) -> int:
        """Also the number of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self.ended.done()

    def ask_to_end(self) -> None:
        if self.alive:
            self._process.send_signal(self.program.stop_signal)

    def kill(self) -> None:
        """It and all of its group, whether or not it still lives itself."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        code = self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.kill()  # nginx's workers outlive a killed master, and would keep its port
        while self._read():
            pass
        self._loop.remove_reader(self._output)
        os.close(self._output)
        self.ended.set_result(code)

    def _read(self) -> bool:
        """Whether there was something to read."""
        try:
            data = os.read(self._output, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._output)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _PIECE or not data:
            lines, self._rest = [*lines, self._rest], b""
        for line in filter(None, lines):
            text = line.decode("utf-8", "replace")
            self._log.info("%s", text)
            self._on_line(text)
        return bool(data)


def log_file(folder: Path, name: str) -> logging.Logger:
    """Writes `<folder>/<name>.log` and nothing else; old output moves to `<name>.log.1`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = logging.Logger(f"output of {name}")
    handler = logging.handlers.RotatingFileHandler(
        folder / f"{name}.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8"
    )
    log.addHandler(handler)
    return log
