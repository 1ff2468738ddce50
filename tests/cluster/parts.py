"""The command line of each program of the cluster. Each flag that is not obvious has its reason."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.build import Programs
from tests.cluster.layout import Layout

PROJECT: Final = Path(__file__).parents[2]
# In the order of their start. The end has no order: everything is killed.
CONTROL: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE: Final = ("containerd", "kubelet")
FAKE: Final = "kwok"
VOLUMES: Final = "volumes"
FAKE_NODE: Final = "kwok.x-k8s.io/node"  # annotation of nodes that kwok plays


def command(part: str, layout: Layout, programs: Programs, *, raised_limits: bool) -> Sequence[str]:
    match part:
        case "etcd":
            return _etcd(layout, programs)
        case "kube-apiserver":
            return _apiserver(layout, programs)
        case "kube-controller-manager":
            return _controller_manager(layout, programs, raised_limits)
        case "kube-scheduler":
            return _scheduler(layout, programs)
        case "containerd":
            return [programs["containerd"], "--config", str(layout.root / "containerd.toml")]
        case "kubelet":
            return _kubelet(layout, programs)
        case "kwok":
            return _kwok(layout, programs)
        case "volumes":
            return [sys.executable, "-m", "tests.cluster.volumes", str(layout.root), layout.node_name]
        case _:
            raise ValueError(f"There is no part called {part!r}.")


def _etcd(layout: Layout, programs: Programs) -> list[str]:
    clients, peers = (f"http://127.0.0.1:{layout.port(name)}" for name in ("etcd", "etcd-peers"))
    return [
        programs["etcd"],
        f"--data-dir={layout.root / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # the state of a test need not survive the machine
        "--log-level=warn",
    ]


def _apiserver(layout: Layout, programs: Programs) -> list[str]:
    host, port = layout.api
    keys = layout.certificates
    return [
        programs["kube-apiserver"],
        f"--etcd-servers=http://127.0.0.1:{layout.port('etcd')}",
        f"--bind-address={host}",
        # The endpoint of the service `kubernetes`; it may not be a loopback address.
        f"--advertise-address={layout.service_ip}",
        f"--secure-port={port}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
        f"--kubelet-client-key={keys / 'kubelet-client.key'}",
        f"--kubelet-certificate-authority={keys / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",  # else logs, exec and port-forward look for the node's name
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys / 'accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'accounts.key'}",
        f"--service-cluster-ip-range={layout.services}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-aggregator-routing=true",  # webhooks by the address of their endpoint: there is no kube-proxy
        "--allow-privileged=true",
    ]


def _controller_manager(layout: Layout, programs: Programs, raised_limits: bool) -> list[str]:
    kubeconfig = str(layout.root / "controller-manager.kubeconfig")
    keys = layout.certificates
    words = [
        programs["kube-controller-manager"],
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={keys / 'accounts.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.port('controller-manager')}",
        f"--cert-dir={layout.root / 'controller-manager'}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]
    if raised_limits:  # 20 a second bind five new volumes a second, whatever the machine
        words += ["--kube-api-qps=100", "--kube-api-burst=200"]
    if not layout.real:  # fake nodes alone renew no lease: at 1,000 of them that would take half a core
        words.append("--node-monitor-grace-period=2h")
    return words


def _scheduler(layout: Layout, programs: Programs) -> list[str]:
    return [
        programs["kube-scheduler"],
        f"--config={layout.root / 'scheduler.json'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.port('scheduler')}",
        f"--cert-dir={layout.root / 'scheduler'}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]


def _kubelet(layout: Layout, programs: Programs) -> list[str]:
    return [
        programs["kubelet"],
        f"--config={layout.root / 'kubelet.json'}",
        f"--kubeconfig={layout.root / 'node.kubeconfig'}",
        f"--hostname-override={layout.node_name}",
        f"--node-ip={layout.node_ip}",
    ]


def _kwok(layout: Layout, programs: Programs) -> list[str]:
    words = [
        programs["kwok"],
        f"--kubeconfig={layout.kubeconfig}",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE}=fake",
        "--manage-all-nodes=false",
        f"--node-ip={layout.node_ip}",
        f"--server-address=127.0.0.1:{layout.port('kwok')}",
        *(f"--config={stage}" for stage in programs.stages),
    ]
    if layout.real:  # then the node controller is as impatient as it always is, and wants to see leases
        words.append("--node-lease-duration-seconds=40")
    return words
