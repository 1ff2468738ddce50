"""A place for the contract suite: the kubernetes driver before the API server and the machines of these tests."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kmock import Server

from apps.cluster.drivers.kubernetes import Connection, KubernetesCluster, Rules, Timing
from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.core.share import GIB, GpuShare, Resources
from tests.kubernetes.machines import Machines
from tests.kubernetes.server import ApiServer

QUICK = Timing(
    request=5.0,
    watch=60.0,
    silence=30.0,
    stale=2.0,
    start=10.0,
    room=0.02,
    mark=0.0,
    stuck=0.2,
    overlooked=0.2,
    prods=(0.01, 0.02),
)
_SERVES = ("serve", "alone", "deaf", "mute", "flood")


class KubernetesPlace:
    keeps_accounts_apart = False  # by containers, not by accounts: see test_contract

    def __init__(self, server: ApiServer, url: str, machines: Machines, timing: Timing = QUICK) -> None:
        self.server, self.url, self.machines, self.timing = server, url, machines, timing
        self.rules = Rules(images={"contract": "contract"}, first_port=machines.port, volume_bytes=GIB)

    def cluster(self, **options: Any) -> KubernetesCluster:
        values: dict[str, Any] = {"rules": self.rules, "timing": self.timing, "reach": "direct"} | options
        return KubernetesCluster(Connection(host=self.url), **values)

    @asynccontextmanager
    async def cards(self, models: str = "h100") -> AsyncIterator[None]:
        self.machines.cards(models)
        await self.machines.agent.start()
        yield

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
            "command": ("exercise", *words),
            "resources": Resources(gpu=gpu, cpu_milli=1000, ram=GIB),
            "ports": (Port("http"),) if serves else (),
            "volumes": (Volume(f"home-{uid}", "~"),),
            "probe": Probe("http", "/") if serves else None,
            "grace_seconds": 5,
        }
        return RunSpec(**values | changes)


@asynccontextmanager
async def kubernetes_place(timing: Timing = QUICK) -> AsyncIterator[KubernetesPlace]:
    folder = Path(tempfile.mkdtemp(prefix="tessera-kubernetes-"))
    os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")
    try:
        async with ApiServer() as server, Server(server, host="127.0.0.1") as served:
            machines = Machines(server, folder, 18_888)
            try:
                yield KubernetesPlace(server, str(served.url).rstrip("/"), machines, timing)
            finally:
                await machines.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
