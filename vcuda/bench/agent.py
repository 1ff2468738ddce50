"""The real node agent beside a simulated node, spoken to over its Unix socket like any caller."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from vcuda.bench.simnode import SimNode

PROJECT = Path(__file__).resolve().parents[2]


class Agent:
    """Runs until closed. Its claims are folders as in production."""

    def __init__(self, node: SimNode) -> None:
        self._socket = node.folder / "agent.sock"
        self._log = (node.folder / "agent.log").open("w+")
        command = [
            sys.executable,
            "-m",
            "vcuda.node",
            "--state",
            str(node.folder / "state"),
            "--socket",
            str(self._socket),
        ]
        command += ["--sim-node", str(node.path), "--libraries", str(node.build)]
        self._process = subprocess.Popen(command, cwd=PROJECT, stdout=self._log, stderr=subprocess.STDOUT)
        self._wait_for_socket()

    def _wait_for_socket(self) -> None:
        """The socket appears when the agent answers."""
        while self._process.poll() is None:
            if self._socket.exists():
                return
            time.sleep(0.02)
        self._log.seek(0)
        raise RuntimeError(f"the node agent ended with {self._process.returncode}: {self._log.read()[-2000:]}")

    def claim(self, name: str, *, uuid: str, memory: int, compute: int, ceiling: int | None = None) -> dict[str, str]:
        """Make a claim; answers the environment that its programs need. Bytes and per mille."""
        device = {"uuid": uuid, "memory": memory, "compute": compute, "ceiling": ceiling or compute}
        body = {"devices": [device], "uid": os.geteuid(), "gid": os.getegid()}
        made = self._ask("PUT", f"/claims/{name}", body)
        environment: dict[str, str] = made["env"]
        return environment

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
        self._process.wait()
        self._log.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("agent", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
