"""The driver of the gateway's benchmark (TESSERA_DRIVER=tests.bench.target.Target): everything runs at one address."""

import os

from apps.cluster.specs import Endpoint


class Target:
    async def dial(self, _uid: str, _port: str) -> Endpoint:
        host, _, port = os.environ["TESSERA_BENCH_TARGET"].rpartition(":")
        return Endpoint(host, int(port), {"Authorization": "token bench"})
