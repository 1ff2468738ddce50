"""A place for the contract suite on a real cluster: the programs of the contract run in containers that open their port themselves."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from apps.cluster.drivers.kubernetes import Connection, KubernetesCluster, Rules
from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.core.share import GIB, MIB, GpuShare, Resources
from tests.cluster.cluster import Cluster
from tests.cluster_node import python_image

_PROGRAM = (Path(__file__).parents[1] / "contract" / "program.py").read_text()
# The contract's programs take a socket; in a container they open the port that they were given.
_START = """
import os, socket, sys
if "TESSERA_PORT" in os.environ:
    listener = socket.create_server(("", int(os.environ["TESSERA_PORT"])), backlog=128)
    if listener.fileno() != 3:
        os.dup2(listener.fileno(), 3); listener.close()
    else:
        listener.detach()
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
"""
_SERVES = ("serve", "alone", "deaf", "mute", "flood")


class RealPlace:
    """Each has a portal of its own, so that nothing of one test is met by the next."""

    keeps_accounts_apart = True

    def __init__(self, cluster: Cluster) -> None:
        self.real = cluster
        self.portal = f"t{secrets.token_hex(4)}"
        self.rules = Rules(
            portal=self.portal,
            images={"contract": python_image.NAME},
            pull_policy="Never",
            volume_bytes=16 * MIB,
            cpu_request_permille=50,
            ingress_cidrs=("0.0.0.0/0",),
        )

    def cluster(self, **options: Any) -> KubernetesCluster:
        values: dict[str, Any] = {"rules": self.rules, "reach": "direct"} | options
        return KubernetesCluster(Connection(kubeconfig=str(self.real.kubeconfig)), **values)

    @asynccontextmanager
    async def cards(self, models: str = "h100") -> AsyncIterator[None]:
        """They are the cluster's; that they are free again is waited for."""
        async with asyncio.timeout(60):
            while await asyncio.to_thread(self._held):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield

    def _held(self) -> bool:
        claims = self.real.api.get("/apis/resource.k8s.io/v1/resourceclaims")["items"]
        return any((claim.get("status") or {}).get("allocation") for claim in claims)

    def spec(self, uid: str, *words: str, run: int = 1, gpu: GpuShare | None = None, **changes: Any) -> RunSpec:
        words = words or ("serve",)
        serves = words[0] in _SERVES
        values: dict[str, Any] = {
            "uid": uid,
            "run": run,
            "kind": "experiment",
            "name": f"试验 {uid}",
            "slug": uid,
            "tenant": "physics",
            "owner": "ada",
            "account": "physics/ada",
            "environment": "contract",
            "command": ("python3", "-c", _START + _PROGRAM, *words),
            "resources": Resources(gpu=gpu, cpu_milli=1000, ram=GIB // 4),
            "ports": (Port("http"),) if serves else (),
            "volumes": (Volume(f"home-{uid}", "~"),),
            "probe": Probe("http", "/") if serves else None,
            "grace_seconds": 5,
        }
        return RunSpec(**values | changes)

    async def forget(self) -> None:
        def delete() -> None:
            self.real.kubectl("delete", "namespace", "-l", f"tessera.dev/portal={self.portal}", "--wait=false")

        await asyncio.to_thread(delete)
