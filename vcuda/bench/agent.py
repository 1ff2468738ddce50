"""The real node agent beside a simulated node, spoken to over its Unix socket like any caller."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from vcuda.bench.simnode import SimNode
from vcuda.node import agent as node_agent


class Agent:
    """Runs until closed, in a process of its own that has its modules already: a matrix starts hundreds. Its claims are folders as in production."""

    def __init__(self, node: SimNode) -> None:
        self._socket = node.folder / "agent.sock"
        self._log = node.folder / "agent.log"
        words = ["--state", str(node.folder / "state"), "--socket", str(self._socket)]
        words += ["--sim-node", str(node.path), "--libraries", str(node.build)]
        self._process = multiprocessing.get_context("fork").Process(target=_serve, args=(words, self._log))
        self._process.start()
        self._wait_for_socket()

    def _wait_for_socket(self) -> None:
        """The socket appears when the agent answers."""
        while self._process.is_alive():
            if self._socket.exists():
                return
            time.sleep(0.005)
        raise RuntimeError(f"the node agent ended with {self._process.exitcode}: {self._log.read_text()[-2000:]}")

    def claim(self, name: str, *, uuid: str, memory: int, compute: int, ceiling: int | None = None) -> dict[str, str]:
        """Make a claim; answers the environment that its programs need. Bytes and per mille."""
        device = {"uuid": uuid, "memory": memory, "compute": compute, "ceiling": ceiling or compute}
        body = {"devices": [device], "uid": os.geteuid(), "gid": os.getegid()}
        made = self._ask("PUT", f"/claims/{name}", body)
        environment: dict[str, str] = made["env"]
        return environment

    def change(self, name: str, *, uuid: str, compute: int, ceiling: int | None = None) -> None:
        """Another share from now on, per mille."""
        device = {"uuid": uuid, "compute": compute, "ceiling": ceiling or compute}
        self._ask("PATCH", f"/claims/{name}", {"devices": [device]})

    def _ask(self, method: str, path: str, body: object) -> Any:
        connection = _UnixConnection(self._socket)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer.decode()}")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def _serve(words: Sequence[str], log: Path) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    sys.exit(node_agent.main(words))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("agent", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
