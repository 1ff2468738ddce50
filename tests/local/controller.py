"""A controller reduced to its driver, to be killed: starts it on a state folder, applies one run, prints each state it sees."""

import asyncio
import pickle
import sys
from pathlib import Path

from apps.cluster.drivers.local import LocalCluster
from apps.cluster.specs import RunSpec


async def main(state: Path, spec: RunSpec) -> None:
    cluster = LocalCluster(state, state / "agent.sock", state / "environments")
    await cluster.start()
    seen = cluster.observe()
    await cluster.apply(spec)
    async for observation in seen:
        print(observation.state, flush=True)


asyncio.run(main(Path(sys.argv[1]), pickle.loads(Path(sys.argv[2]).read_bytes())))
