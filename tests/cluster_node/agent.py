"""The node agent of a test cluster's node: as a process of this machine, or as the shipped manifests run it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.cluster import install
from tests.cluster.cluster import Cluster
from tests.cluster.parts import PROJECT
from tests.cluster.pods import BOUND, eventually

_DYING: Final = """
import sys
from pathlib import Path
from tests.unit.node.dra.dying import arm
from vcuda.node.agent import main
arm(int(sys.argv[1]), Path(sys.argv[2]))
sys.exit(main(sys.argv[3:]))
"""
_LIBRARIES: Final = PROJECT / "build" / "vcuda"


class Reader(ABC):
    """What an agent tells over the network."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.state = cluster.layout.node_folder

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def token(self) -> str: ...

    @abstractmethod
    def said(self) -> str:
        """The end of its log."""

    def ready(self) -> bool:
        """kubelet knows it, and its cards are published."""
        try:
            state = self.ask("/healthz", token=False)["kubernetes"]
        except OSError:
            return False
        return bool(state["registered"] and state["published"])

    def ensure(self) -> None:
        """That it runs."""
        eventually(self.ready, self.said)

    def ask(self, path: str, *, token: bool = True) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if token else {}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            text = response.read().decode()
        return json.loads(text) if response.headers.get_content_type() == "application/json" else text

    def claims(self) -> dict[str, dict[str, Any]]:
        return {claim["name"]: claim for claim in self.ask("/claims")["claims"]}

    def samples(self, seconds: int) -> list[dict[str, dict[str, Any]]]:
        """By subject, of so many whole seconds from now on."""
        request = urllib.request.Request(f"{self.url}/samples", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=10) as response:
            lines = [json.loads(response.readline()) for _ in range(seconds + 2)]
        return [{sample["subject"]: sample for sample in line} for line in lines[2:]]


class PodAgent(Reader):
    """The pod of the shipped DaemonSet."""

    @property
    def url(self) -> str:
        return f"http://{install.agent_pod(self._cluster)['status']['podIP']}:9400"

    @property
    def token(self) -> str:
        return install.token(self._cluster)

    def ready(self) -> bool:
        pod = install.agent_pod(self._cluster)
        return bool(pod.get("status", {}).get("podIP")) and super().ready()

    def said(self) -> str:
        words = (
            "logs",
            "-n",
            install.NAMESPACE,
            "-l",
            "app.kubernetes.io/name=tessera-node-agent",
            "--tail=20",
            "--prefix",
        )
        return self._cluster.kubectl(*words, check=False)

    def kill(self) -> None:
        """The container's first process, on the machine."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        uid = install.agent_pod(self._cluster)["metadata"]["uid"]
        return process_in_pod(uid, b"vcuda.node")

    def names(self) -> list[str]:
        """Of all pods of the agent, also those that are ending."""
        pods = f"/api/v1/namespaces/{install.NAMESPACE}/pods"
        found = self._cluster.api.get(pods, labelSelector="app.kubernetes.io/name=tessera-node-agent")
        return [pod["metadata"]["name"] for pod in found["items"]]

    def update(self) -> None:
        """Begin a rolling update."""
        self._cluster.kubectl("rollout", "restart", "daemonset/tessera-node-agent", f"--namespace={install.NAMESPACE}")


class NodeAgent(Reader):
    """Again after its end: a restart on the same state."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster)
        self._folder = folder
        self._token = folder / "token"
        self._token.write_text(secrets.token_hex(16))
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "agent.log"
        self.trigger = folder / "armed"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        return self._token.read_text()

    def start(self, *, dies_at: int = 0) -> None:
        """`dies_at`: killed just before that change of the file system, counted from the moment at which `trigger` exists."""
        self.trigger.unlink(missing_ok=True)
        dying = ["-c", _DYING, str(dies_at), str(self.trigger)]
        words: list[str | Path] = [sys.executable, *(dying if dies_at else ["-m", "vcuda.node"])]
        words += ["--state", self.state, "--socket", self._folder / "agent.sock", "--libraries", _LIBRARIES]
        words += ["--sim-node", self._cluster.layout.sim_node, "--kubernetes", "--node-name", self._cluster.node_name]
        words += ["--kubelet-dir", self._cluster.layout.kubelet, "--cdi-dir", self._cluster.layout.cdi]
        words += ["--listen", f"127.0.0.1:{self._port}", "--token-file", self._token]
        env = os.environ | {"KUBECONFIG": str(self._cluster.kubeconfig)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(words, cwd=PROJECT, env=env, stderr=log)
        eventually(self.ready, self.said)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def ensure(self) -> None:
        if not self.alive:
            self.start()
        super().ensure()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def dead(self) -> None:
        """Wait until it has ended by itself."""
        assert self._process
        assert self._process.wait(BOUND) == -signal.SIGKILL, self.said()

    def _end(self, number: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(BOUND)

    def said(self) -> str:
        return "\n".join(self.log.read_text().splitlines()[-20:])


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def process_in_pod(uid: str, words: bytes) -> int:
    """This machine's number of the first process of a pod whose command line has `words`."""
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with suppress(OSError):
            if uid in (folder / "cgroup").read_text().replace("_", "-") and words in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise AssertionError(f"no process of pod {uid} runs {words!r}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


def seconds_until(holds: Any) -> float:
    began = time.monotonic()
    eventually(holds)
    return time.monotonic() - began
