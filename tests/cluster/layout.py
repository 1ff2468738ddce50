"""Names of one test cluster: its folders, addresses and ports. Decides them only; touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Where a node keeps its things, as every manifest expects it, and the cluster's folder that lies there. The node has mounts of
# its own, in which these are laid over the machine's: nothing appears on the machine itself but empty folders.
NODE_FOLDERS: Final = {
    "/var/lib/kubelet": "kubelet",
    "/run/containerd": "run/containerd",
    "/run/cdi": "cdi",
    "/var/lib/tessera": "node",
    "/var/lib/cni": "cni",
    "/var/log/pods": "logs/pods",
    "/var/log/containers": "logs/containers",
}
_NETWORK: Final = (
    "10.231"  # /16 of its own: the lower half for pods, the upper for services, one /24 of each for a cluster
)
_FIRST_PORT: Final = 21600
_PORTS: Final = {"api": 0, "etcd": 1, "etcd-peers": 2, "controller-manager": 3, "scheduler": 4, "kwok": 5}
MOST: Final = 16  # clusters at the same time


@dataclass(frozen=True, slots=True)
class Layout:
    """`index` keeps clusters on one machine apart; `real` says whether there is a node that runs pods."""

    root: Path
    index: int
    real: bool

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def certificates(self) -> Path:
        return self.root / "certificates"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def node_folder(self) -> Path:
        """`/var/lib/tessera` of the node: where the node agent keeps its state."""
        return self.root / NODE_FOLDERS["/var/lib/tessera"]

    @property
    def cdi(self) -> Path:
        return self.root / NODE_FOLDERS["/run/cdi"]

    @property
    def kubelet(self) -> Path:
        return self.root / NODE_FOLDERS["/var/lib/kubelet"]

    @property
    def containerd_socket(self) -> Path:
        return self.root / NODE_FOLDERS["/run/containerd"] / "containerd.sock"

    @property
    def sim_node(self) -> Path:
        """The file of the simulated cards; `/var/lib/tessera/sim.node` for the node's pods."""
        return self.node_folder / "sim.node"

    @property
    def node_name(self) -> str:
        return "node-1"

    @property
    def bridge(self) -> str:
        return f"tessera{self.index}"

    @property
    def cgroup(self) -> str:
        return f"/tessera{self.index}"

    @property
    def node_ip(self) -> str:
        return f"{_NETWORK}.{self.index}.1"

    @property
    def pods(self) -> str:
        return f"{_NETWORK}.{self.index}.0/24"

    @property
    def services(self) -> str:
        return f"{_NETWORK}.{128 + self.index}.0/24"

    @property
    def service_ip(self) -> str:
        """Of the service `kubernetes`: the first of its range, always."""
        return f"{_NETWORK}.{128 + self.index}.1"

    @property
    def api(self) -> tuple[str, int]:
        """Where the API server listens.

        Beside a real node at the very address of its service, which the bridge carries as a second one: pods reach it through
        their gateway, with no kube-proxy and not one rule for packets. Without a node on the loopback.
        """
        return (self.service_ip, 443) if self.real else ("127.0.0.1", self.port("api"))

    @property
    def address(self) -> str:
        host, port = self.api
        return f"https://{host}:{port}"

    def port(self, part: str) -> int:
        return _FIRST_PORT + len(_PORTS) * self.index + _PORTS[part]
