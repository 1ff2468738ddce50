"""Configuration files of the node's and the scheduler's programs. Each setting that is not the default has its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.cluster.layout import Layout

PAUSE: Final = "tessera.dev/pause:1"

# Debian's own containerd lacks CDI, hence ours; what it does not need here is left out, as that costs time at each start.
_CONTAINERD: Final = """\
version = 3
root = "{root}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs", "io.containerd.differ.v1.erofs",
  "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
address = "/run/containerd/containerd.sock"

[ttrpc]
address = "/run/containerd/containerd.sock.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
# Without CAP_SYS_RESOURCE every sandbox fails: "can't get final child's PID from pipe".
restrict_oom_score_adj = true
# Else an empty file for each pod stays in /run/netns of the machine.
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{root}/cni.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def write(layout: Layout, *, percentage_of_nodes: int | None, raised_limits: bool) -> None:
    _write(layout.root / "scheduler.json", _scheduler(layout, percentage_of_nodes, raised_limits))
    if layout.real:
        (layout.root / "cni.d").mkdir(exist_ok=True)
        (layout.root / "containerd.toml").write_text(_CONTAINERD.format(root=layout.root, pause=PAUSE))
        _write(layout.root / "cni.d" / "10-tessera.conflist", _network(layout))
        _write(layout.root / "kubelet.json", _kubelet(layout))


def _scheduler(layout: Layout, percentage_of_nodes: int | None, raised_limits: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(layout.root / "scheduler.kubeconfig")},
        "leaderElection": {"leaderElect": False},
    }
    if raised_limits:  # 50 a second bind 13 pods with claims a second, whatever the machine
        content["clientConnection"] |= {"qps": 200, "burst": 400}
        # Of those that wait it tries first whose back-off ends first; with the stock 10 s that is whoever was tried least often: the youngest.
        content["podMaxBackoffSeconds"] = 1
    if percentage_of_nodes is not None:
        content["percentageOfNodesToScore"] = percentage_of_nodes
    return content


def _network(layout: Layout) -> dict[str, Any]:
    """A bridge and nothing else: pods reach each other and the machine, and no rule for packets is ever made."""
    bridge = {
        "type": "bridge",
        "bridge": layout.bridge,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": layout.pods, "gateway": layout.node_ip}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/var/lib/cni/networks",
        },
    }
    return {"cniVersion": "1.0.0", "name": "tessera", "plugins": [bridge]}


def _kubelet(layout: Layout) -> dict[str, Any]:
    certificates = layout.certificates
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.node_ip,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certificates / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificates / "kubelet.crt"),
        "tlsPrivateKeyFile": str(certificates / "kubelet.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.cgroup,  # ours alone, so that all of it can be taken away
        "failCgroupV1": False,
        "failSwapOn": False,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,  # images come from no registry: one that is collected is gone
        "makeIPTablesUtilChains": False,
        "serializeImagePulls": False,
        # No DNS answers here yet. Without these a pod asks the machine's own resolver, and waits; so it is refused at once.
        "clusterDNS": [layout.node_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "shutdownGracePeriod": "0s",
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))
