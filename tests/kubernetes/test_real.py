"""The contract of all cluster drivers on a real Kubernetes: API server, scheduler, kubelet, containerd, and the node agent as it is shipped.

What is told differently from tests/contract says why.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apps.cluster.drivers.kubernetes import KubernetesCluster, Timing
from apps.cluster.specs import RunState, Volume
from apps.core.errors import NotFound, Unavailable
from tests.cluster.cluster import DEFAULT, Cluster, Options, running
from tests.cluster.fixtures import machine_for_a_node as machine_for_a_node
from tests.cluster.install import install
from tests.cluster_node import python_image
from tests.contract.conftest import end_everything
from tests.contract.test_resizing import *  # noqa: F403
from tests.contract.test_runs import *  # noqa: F403
from tests.contract.test_shares import *  # noqa: F403
from tests.contract.test_survival import *  # noqa: F403
from tests.contract.test_volumes_and_logs import *  # noqa: F403
from tests.contract.watching import Watcher, facts, until_seen, watching
from tests.kubernetes.real import RealPlace

del test_two_drivers_never_look_after_the_same_runs  # noqa: F821 - see test_contract


@pytest.fixture(scope="session")
def real(machine_for_a_node: None) -> Iterator[Cluster]:
    """One node with one simulated card, which is what the contract asks for."""
    name = f"{os.environ.get('TESSERA_CLUSTER', DEFAULT)}-contract"
    with running(Options(cards=("h100",)), name) as found:
        tar = found.layout.root / "test-python.tar"
        if not tar.exists():
            python_image.write(tar)
            found.import_image(tar)
        hold_address(found.layout.bridge)
        install(found)
        yield found


def hold_address(bridge: str) -> None:
    """A bridge takes the lowest address of its cables, so that each pod that comes or goes cuts all others off from the API server until
    they ask for it anew, up to a minute and a half; one that was given to it stays.
    """
    known = Path("/sys/class/net", bridge, "address").read_text().strip()
    subprocess.run(["ip", "link", "set", bridge, "address", known], check=True)


@pytest.fixture
async def place(real: Cluster) -> AsyncIterator[RealPlace]:
    made = RealPlace(real)
    yield made
    await end_everything(made)
    await made.forget()


async def test_a_later_run_never_runs_beside_the_earlier_one(  # type: ignore[no-redef]
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """By the run's own secret: in containers of their own both have the same process id."""
    await cluster.apply(place.spec("a", "alone"))
    await watch.until("a", RunState.READY, run=1)
    first = await facts(cluster, "a")
    await cluster.apply(place.spec("a", "alone", run=2))
    await watch.until("a", RunState.READY, run=2)
    assert (await facts(cluster, "a"))["environment"]["TESSERA_TOKEN"] != first["environment"]["TESSERA_TOKEN"]
    order = [(seen.run, seen.state) for seen in watch.seen]
    assert order.index((1, RunState.EXITED)) < order.index((2, RunState.PREPARING))


async def test_a_deleted_run_ends_and_no_longer_answers(  # type: ignore[no-redef]
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """Its address is gone with it, so that nobody is there to refuse."""
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    endpoint = await cluster.dial("a", "http")
    await cluster.delete("a", grace_seconds=5)
    ended = await watch.until("a", RunState.EXITED)
    assert (ended.reason, ended.cards) == ("", ())
    assert watch.states("a")[-2:] == [RunState.STOPPING, RunState.EXITED]
    with pytest.raises(OSError, match=r".*"):  # nobody answers, or nobody is there to be asked
        async with asyncio.timeout(3.0):
            await asyncio.open_connection(endpoint.host, endpoint.port)
    with pytest.raises(NotFound):
        await cluster.dial("a", "http")


@pytest.mark.parametrize("name", ["home 量子/é", "a%2Fb", "x" * 100])  # type: ignore[no-redef]
async def test_any_name_of_a_volume_is_one_folder(
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher, name: str
) -> None:
    """Every home has the same path in its container: what lies in it tells them apart."""
    volumes = (Volume(name, "~"),)
    await cluster.apply(place.spec("a", "touch", "alone", volumes=volumes))
    await watch.until("a", RunState.EXITED)
    await cluster.apply(place.spec("b", "alone"))
    await cluster.apply(place.spec("c", "alone", volumes=volumes))
    await watch.until("b", RunState.READY)
    assert (await watch.until("c", RunState.EXITED)).exit_code == 9


async def test_another_account_cannot_read_a_home(place: RealPlace, cluster: KubernetesCluster, watch: Watcher) -> None:  # type: ignore[no-redef]
    """Nor can a friend: a home is in the containers that were given it, and in no other."""
    await cluster.apply(place.spec("a", "alone"))
    await watch.until("a", RunState.READY)
    mark = (await facts(cluster, "a"))["home"] + "/alone"
    await cluster.apply(place.spec("friend", "read", mark))
    await watch.until("friend", RunState.EXITED)
    assert "refused: No such file" in (await cluster.logs("friend")).text


async def test_what_ended_while_nobody_looked_is_found_ended_with_its_reason(  # type: ignore[no-redef]
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """What we had asked to end leaves nothing in the cluster: it is found absent, or still ending."""
    await cluster.apply(place.spec("a", "mute", "go-on"))
    await watch.until("a", RunState.STARTING)
    await cluster.delete("a", grace_seconds=0)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    seen = await successor.get("a")
    assert (seen.state, seen.reason) in [(RunState.ABSENT, ""), (RunState.STOPPING, "stopping")]
    await successor.close()


# --- From outside of the cluster's network -------------------------------------------------------------------------------
async def test_through_the_api_server_everything_works_as_it_does_directly(place: RealPlace) -> None:
    driver = place.cluster(reach="forward")
    await driver.start()
    async with watching(driver) as watch:
        await driver.apply(place.spec("a"))
        await watch.until("a", RunState.READY)
        endpoint = await driver.dial("a", "http")
        assert endpoint.host == "127.0.0.1"
        assert (await facts(driver, "a"))["authorised"]
        reader = place.cluster(reach="forward")
        assert (await facts(reader, "a"))["authorised"]
        await reader.close()
        await driver.delete("a", grace_seconds=1)
        await watch.until("a", RunState.EXITED)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(endpoint.host, endpoint.port)
    await driver.close()


async def test_figures_come_through_the_api_server_as_well(place: RealPlace) -> None:
    driver = place.cluster(reach="forward")
    await driver.start()
    async with asyncio.timeout(30):
        async for batch in driver.samples():
            if any(sample.subject.startswith("card:") for sample in batch):
                break
    await driver.close()


async def test_many_requests_at_once_come_through_a_tunnel_unharmed(place: RealPlace) -> None:
    driver = place.cluster(reach="forward")
    await driver.start()
    async with watching(driver) as watch:
        await driver.apply(place.spec("a"))
        await watch.until("a", RunState.READY)
        endpoint = await driver.dial("a", "http")

        async def ask() -> int:
            """Whole JSON of the announced length, or this raises."""
            async with (
                aiohttp.ClientSession(headers=dict(endpoint.headers)) as session,
                session.get(f"http://{endpoint.host}:{endpoint.port}/") as answer,
            ):
                told: dict[str, Any] = await answer.json(content_type=None)
                return int(told["pid"])

        pids = await asyncio.gather(*(ask() for _ in range(20)))
        assert len(set(pids)) == 1
    await driver.close()


# --- Terminals -----------------------------------------------------------------------------------------------------------
async def test_a_terminal_runs_a_program_where_the_run_is(
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    terminal = await cluster.exec("a", ["sh"], tty=True)
    await terminal.resize(100, 30)
    await terminal.write(b"echo $((6 * 7)) $HOME; exit 3\n")
    said = b"".join([chunk async for chunk in terminal.output()])
    assert b"42 /home/tessera" in said
    assert terminal.exit_code == 3
    await terminal.close()


async def test_a_program_without_a_terminal_reads_to_the_end_of_its_input(
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    terminal = await cluster.exec("a", ["cat"], tty=False)
    content = bytes(range(256)) * 2000
    await terminal.write(content)
    await terminal.end_input()
    assert b"".join([chunk async for chunk in terminal.output()]) == content
    assert terminal.exit_code == 0
    await terminal.close()


async def test_there_is_no_terminal_where_nothing_runs(
    place: RealPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    with pytest.raises(NotFound):
        await cluster.exec("nobody", ["sh"])
    await cluster.apply(place.spec("a", "say", "1"))
    await watch.until("a", RunState.EXITED)
    with pytest.raises(NotFound):
        await cluster.exec("a", ["sh"])


# --- Faults that only a real server has ----------------------------------------------------------------------------------
async def test_while_the_api_server_hangs_it_is_unknown_and_afterwards_as_before(
    place: RealPlace, real: Cluster, watch: Watcher, cluster: KubernetesCluster
) -> None:
    """Stopped as a process, it keeps its connections open and says nothing: what a half-open connection is like."""
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    quick = place.cluster(timing=Timing(silence=1.0, stale=1.0, request=2.0))
    await quick.start()
    await until_seen(quick, "a", RunState.READY)
    async with watching(quick) as told:
        real.pause_apiserver()
        try:
            async with asyncio.timeout(30):
                while (await quick.get("a")).state is not RunState.UNKNOWN:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            with pytest.raises(Unavailable):
                await quick.apply(place.spec("b"))
        finally:
            real.resume()
        async with asyncio.timeout(60):
            while (await quick.get("a")).state is not RunState.READY:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert told.seen == []
    assert (await facts(quick, "a"))["authorised"]
    await quick.close()
