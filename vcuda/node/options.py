"""What the agent is told on its command line."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vcuda.node.backends.choose import NAMES
from vcuda.node.errors import Unavailable

_LIBRARIES: Final = Path(__file__).resolve().parents[2] / "build" / "vcuda"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the calls that only read are answered over the network."""

    host: str
    port: int
    token: Path

    def open(self) -> socket.socket:
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as error:
            raise Unavailable(
                f"The agent cannot listen at {self.host}:{self.port}: {error}.", hint="Choose another with --listen."
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node of a cluster. `root` is where the machine's own root folder lies for us."""

    node_name: str
    kubelet: Path
    cdi: Path
    root: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    state: Path
    socket: Path
    libraries: Path
    sim_node: Path | None = None
    root: Path = Path("/")
    backend: str = "auto"
    listen: Listener | None = None
    kubernetes: Place | None = None


def parse(arguments: Sequence[str] | None) -> Options:
    parser = _parser()
    found = parser.parse_args(arguments)
    if found.kubernetes and not found.node_name:
        parser.error("--kubernetes needs --node-name")
    if found.listen and not found.token_file:
        parser.error("--listen needs --token-file")
    place = Place(node_name=found.node_name, kubelet=found.kubelet_dir, cdi=found.cdi_dir, root=found.host_root)
    return Options(
        state=found.state,
        socket=found.socket,
        libraries=found.libraries,
        sim_node=found.sim_node,
        root=found.host_root,
        backend=found.backend,
        listen=_listener(parser, found.listen, found.token_file) if found.listen else None,
        kubernetes=place if found.kubernetes else None,
    )


def _listener(parser: argparse.ArgumentParser, text: str, token: Path) -> Listener:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        parser.error("--listen is HOST:PORT, as 0.0.0.0:9400 or [::]:9400")
    return Listener(host.strip("[]"), int(port), token)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vcuda.node", description="Tessera's node agent.")
    add = parser.add_argument
    add("--state", type=Path, required=True, help="folder of the agent; claims live below it")
    add("--socket", type=Path, required=True, help="Unix socket to serve, mode 0600")
    add("--sim-node", type=Path, default=None, help="use the simulated node in this file")
    add("--libraries", type=Path, default=_LIBRARIES, help="folder with lib/ and sim/ (default: build/vcuda)")
    add("--host-root", type=Path, default=Path("/"), help="where the machine's own root folder lies (in a container)")
    add(
        "--backend",
        choices=NAMES,
        default="auto",
        help="what keeps the limits (default: the strongest that works here)",
    )
    add("--listen", metavar="HOST:PORT", help="answer over TCP, too, what only reads")
    add("--token-file", type=Path, help="bearer token for --listen")
    add = parser.add_argument_group("as the DRA driver of a Kubernetes node").add_argument
    add("--kubernetes", action="store_true", help="in the cluster of the pod, or of KUBECONFIG")
    add("--node-name", default="", help="the node's name in the cluster")
    add("--kubelet-dir", type=Path, default=Path("/var/lib/kubelet"), help="kubelet's folder (default: %(default)s)")
    add("--cdi-dir", type=Path, default=Path("/var/run/cdi"), help="where CDI files go (default: %(default)s)")
    return parser
