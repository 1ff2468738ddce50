"""Where runners come from: a program that has loaded all of a runner and forks one for each message on its socket.

A fork takes a millisecond, the start of an interpreter thirty, and a start of a run waits for it. A message is the run's folder,
with the descriptors of the runner: standard input, output and error, then the run's sockets. The program ends with its driver.
"""

import fcntl
import os
import signal
import socket
import sys

from . import main
from .numbers import FIRST_SOCKET, MOST_SOCKETS

_LONGEST = 4096  # bytes of a folder's path


def serve() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # runners outlive us, nobody here waits for one
    while True:
        folder, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, 3 + MOST_SOCKETS)
        if not folder:
            return
        if os.fork() == 0:
            _become_runner(folder, descriptors)
        for fd in descriptors:
            os.close(fd)


def _become_runner(folder: bytes, descriptors: list[int]) -> None:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _lay_out(descriptors)
        main.main(os.fsdecode(folder))
        status = 0
    finally:
        os._exit(status)


def _lay_out(descriptors: list[int]) -> None:
    """The first three under their usual numbers, sockets from FIRST_SOCKET on, nothing else open."""
    targets = [0, 1, 2, *range(FIRST_SOCKET, FIRST_SOCKET + len(descriptors) - 3)]
    high = FIRST_SOCKET + MOST_SOCKETS
    moved = [(fcntl.fcntl(fd, fcntl.F_DUPFD, high), target) for fd, target in zip(descriptors, targets, strict=True)]
    for fd, target in moved:
        os.dup2(fd, target)
    os.closerange(3, FIRST_SOCKET)
    os.closerange(targets[-1] + 1 if len(targets) > 3 else FIRST_SOCKET, os.sysconf("SC_OPEN_MAX"))
