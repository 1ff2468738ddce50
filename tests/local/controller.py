"""A controller reduced to its driver, to be killed: starts it on a state folder, applies one run, prints each state it sees."""

import asyncio
import pickle
import sys
from pathlib import Path

from apps.cluster.drivers.local import LocalCluster


async def main(state: Path, spec_file: Path) -> None:
    cluster = LocalCluster(state, state / "agent.sock", state / "environments")
    await cluster.start()
    seen = cluster.observe()
    await cluster.apply(pickle.loads(spec_file.read_bytes()))  # noqa: S301 - written by the test itself
    async for observation in seen:
        print(observation.state, flush=True)


asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
