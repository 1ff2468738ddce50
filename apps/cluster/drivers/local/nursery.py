"""The driver's side of runner/nursery.py: ask for a runner; start the nursery, and again where it was killed."""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from apps.core.errors import Unavailable

_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runner.nursery import serve; serve()"


class Nursery:
    def __init__(self) -> None:
        self._orders: socket.socket | None = None
        self._pid = 0

    def start(self) -> None:
        """Early, so that it has loaded when the first runner is wanted."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parent), str(theirs.fileno())]
            stays_open = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), theirs.fileno())]
            self._pid = os.posix_spawn(
                sys.executable, arguments, {"LANG": "C.UTF-8"}, file_actions=stays_open, setsid=True
            )
        self._orders = ours

    def runner(self, folder: Path, descriptors: Sequence[int]) -> None:
        """A runner in `folder`, with these as its standard input, output, error, and its run's sockets. The caller keeps its own."""
        for _ in range(2):
            if self._orders is None:
                self.start()
            assert self._orders is not None
            try:
                socket.send_fds(self._orders, [os.fsencode(folder)], descriptors)
                return
            except OSError:  # it was killed
                self.close()
        raise Unavailable("No runner can be started.", hint="See the log of the controller.")

    def close(self) -> None:
        """Runners stay."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)  # it ends with its socket, at once
