"""Starts a runner, early: while it takes its lock, the driver prepares what the run needs, and only then gives the order.

Owns the sockets and pipes between driver and runner, and the environment variables of a run's program.
"""

import asyncio
import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from apps.cluster.drivers.local.folders import Places
from apps.cluster.drivers.local.nursery import Nursery
from apps.cluster.drivers.local.records import Record
from apps.cluster.drivers.local.runner import processes
from apps.cluster.drivers.local.runner.numbers import FIRST_SOCKET
from apps.cluster.specs import Port

_BACKLOG = 128
_SYSTEM_PATHS = "/usr/local/bin:/usr/bin:/bin"


def bind(ports: Sequence[Port]) -> dict[str, socket.socket]:
    """A listening socket on a free port of the loopback for each. From now on the number is ours, and a request may be sent."""
    return {port.name: socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) for port in ports}


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Launch:
    """A runner that has not been told yet what to run. Leaving the block without `give` makes it go away again."""

    def __init__(self, nursery: Nursery, folder: Path, sockets: Mapping[str, socket.socket]) -> None:
        self._nursery = nursery
        self._folder = folder
        self.sockets = dict(sockets)
        self._owned = ExitStack()

    def __enter__(self) -> "Launch":
        order_reader, self._order = os.pipe()
        self._told, told_writer = os.pipe()
        trouble = os.open(self._folder / "runner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sockets = [listener.fileno() for listener in self.sockets.values()]
        try:
            self._nursery.runner(self._folder, (order_reader, told_writer, trouble, *sockets))
        finally:
            for fd in (order_reader, told_writer, trouble):
                os.close(fd)
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (self._order, self._told):
            if fd >= 0:
                os.close(fd)
        for listener in self.sockets.values():
            listener.close()

    async def locked(self) -> bool:
        """Wait until the runner holds the lock; False: it ended before that."""
        loop = asyncio.get_running_loop()
        self._lines = asyncio.StreamReader()
        pipe = os.fdopen(self._told, "rb")
        self._told = -1
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._lines), pipe)
        return await self._lines.readline() == b"locked\n"

    def give(self, order: Mapping[str, Any]) -> None:
        with os.fdopen(self._order, "w") as pipe:
            self._order = -1
            json.dump(order, pipe)

    async def started(self) -> bool:
        """Wait until the program is in place; False: it could not be, the runner's report says why."""
        return await self._lines.readline() == b"started\n"


def order(record: Record, log: Path, places: Places, env: Mapping[str, str]) -> dict[str, Any]:
    """What the runner is told (runner/main.py, runner/confine.py)."""
    return {
        "attempt": record.attempt,
        "adopt": None,
        "argv": list(record.spec.command),
        "env": dict(env),
        "cwd": str(places.home),
        "log": str(log),
        "sockets": list(range(FIRST_SOCKET, FIRST_SOCKET + len(record.ports))),
        "groups": list(record.groups),
        "uid": record.uid_number,
        "gid": record.gid_number,
        "marker": record.marker,
        "grace": record.spec.grace_seconds,
    }


def order_to_adopt(record: Record, log: Path, main: Mapping[str, int]) -> dict[str, Any]:
    """For a runner that takes over processes whose first runner died."""
    return {
        "attempt": record.attempt,
        "adopt": {"pid": main.get("pid", 0), "started": main.get("started", 0)},
        "log": str(log),
        "groups": list(record.groups),
        "marker": record.marker,
        "grace": record.spec.grace_seconds,
    }


def variables(record: Record, environment: Path, places: Places, claim: Mapping[str, str]) -> dict[str, str]:
    """Everything that the program finds in its environment; nothing of the driver's own gets in."""
    spec = record.spec
    person = spec.labels.get("owner") or spec.owner
    return {
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "OMP_NUM_THREADS": str(max(1, -(-spec.resources.cpu_milli // 1000))),
        **_share(record),
        **spec.env,
        **claim,
        "PATH": f"{environment / 'bin'}:{_SYSTEM_PATHS}",
        "HOME": str(places.home),
        "USER": person,
        "LOGNAME": person,
        "TMPDIR": str(places.temporary),
        "XDG_RUNTIME_DIR": str(places.runtime),
        "JUPYTER_RUNTIME_DIR": str(places.runtime / "jupyter"),
        "TESSERA_OWNER": person,
        processes.MARKER: record.marker,
        **_listening(record),
    }


def _share(record: Record) -> dict[str, str]:
    """For people and programs that want to know. It limits nothing; the claim does."""
    gpu = record.spec.resources.gpu
    if gpu is None:
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {
        "TESSERA_GPU_COUNT": str(gpu.count),
        "TESSERA_GPU_MEMORY": str(max((grant.memory for grant in record.grants), default=gpu.memory)),  # bytes per card
        "TESSERA_GPU_COMPUTE": str(gpu.compute),  # per mille of each card, guaranteed
        "TESSERA_GPU_CEILING": str(gpu.ceiling),  # per mille of each card, while others are idle
    }


def _listening(record: Record) -> dict[str, str]:
    """Sockets in the manner of LISTEN_FDS; LISTEN_PID is added by the runner, which alone knows it."""
    if not record.ports:
        return {}
    return {
        "LISTEN_FDS": str(len(record.ports)),
        "LISTEN_FDNAMES": ":".join(record.ports),
        "TESSERA_PORT": str(next(iter(record.ports.values()))),
        "TESSERA_TOKEN": record.token,
    }
