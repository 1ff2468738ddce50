"""Any one process is killed with -9, and no run is lost, doubled or forgotten."""

import asyncio
import os
import pickle
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from apps.cluster.drivers.local import LocalCluster
from apps.cluster.drivers.local.liveness import holder
from apps.cluster.drivers.local.records import Store
from apps.cluster.specs import RunState
from apps.core.errors import Unavailable
from apps.core.share import GIB, GpuShare
from tests.contract.local_site import PROJECT, LocalSite
from tests.contract.watching import BOUND, Watcher, facts, watching
from tests.local.conftest import left_of


async def controller_killed_at(place: LocalSite, state: RunState) -> None:
    """A controller begins run `a` and dies when it sees it in this state."""
    spec_file = place.state / "spec.pickle"
    spec_file.write_bytes(pickle.dumps(place.spec("a", "alone")))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.local.controller", place.state, spec_file),
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(BOUND):
        while (line := await process.stdout.readline()).decode().strip() != state:
            assert line, "the controller ended by itself"
    process.kill()
    await process.wait()


@pytest.mark.parametrize("state", [RunState.PREPARING, RunState.STARTING, RunState.READY])
async def test_the_controller_dies_and_the_next_one_goes_on_with_the_same_run(
    place: LocalSite, state: RunState
) -> None:
    await controller_killed_at(place, state)
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        if (await cluster.get("a")).state is not RunState.READY:
            await watch.until("a", RunState.READY)  # a second one beside it would end with code 9
        assert (await facts(cluster, "a"))["authorised"]
        await cluster.delete("a", grace_seconds=5)
        await watch.until("a", RunState.EXITED)
    assert left_of("a") == set()
    await cluster.close()


async def test_the_runner_dies_and_its_run_does_not(place: LocalSite, cluster: LocalCluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "deaf", "marked"))
    await watch.until("a", RunState.READY)
    before = await facts(cluster, "a")
    lock = place.state / "runs" / "a" / "lock"
    runner = holder(lock)
    assert runner is not None
    sights = watch.count("a")
    os.kill(runner, signal.SIGKILL)
    await watch.more("a", than=sights)
    assert holder(lock) not in (None, runner)
    assert (await facts(cluster, "a"))["pid"] == before["pid"]
    assert (await cluster.get("a")).state is RunState.READY
    await cluster.delete("a", grace_seconds=1)
    await watch.until("a", RunState.EXITED)
    assert left_of("a") == set()


def nursery() -> int:
    """The one of this process's driver."""
    own = os.getpid()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == own and b"runner.nursery" in (entry / "cmdline").read_bytes():
                return int(entry.name)
    raise LookupError("there is no nursery")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_nursery_dies_and_the_next_run_starts_all_the_same(
    place: LocalSite, cluster: LocalCluster, watch: Watcher, how: int
) -> None:
    """Killed at rest, or with the request for a runner in its hands (stopped, asked, then killed)."""
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    first = nursery()
    os.kill(first, how)
    await cluster.apply(place.spec("b"))
    if how == signal.SIGSTOP:
        await watch.until("b", RunState.PREPARING)
        os.kill(first, signal.SIGKILL)
    await watch.until("b", RunState.READY)
    assert nursery() != first
    assert (await cluster.get("a")).state is RunState.READY
    for uid in ("a", "b"):
        await cluster.delete(uid, grace_seconds=1)
        await watch.until(uid, RunState.EXITED)
    assert left_of("a") | left_of("b") == set()


async def test_no_nursery_is_left_after_its_driver(cluster: LocalCluster) -> None:
    assert nursery()
    await cluster.close()
    with pytest.raises(LookupError):
        nursery()


async def test_runner_and_controller_die_and_the_next_one_takes_the_run_over(place: LocalSite) -> None:
    await controller_killed_at(place, RunState.READY)
    runner = holder(place.state / "runs" / "a" / "lock")
    assert runner is not None
    os.kill(runner, signal.SIGKILL)
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        assert (await cluster.get("a")).state is RunState.READY
        assert (await facts(cluster, "a"))["authorised"]
        await cluster.delete("a", grace_seconds=5)
        await watch.until("a", RunState.EXITED)
    assert left_of("a") == set()
    await cluster.close()


async def test_a_program_that_is_killed_ends_its_run_with_that_reason(
    place: LocalSite, cluster: LocalCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "deaf"))
    await watch.until("a", RunState.READY)
    os.kill((await facts(cluster, "a"))["pid"], signal.SIGKILL)
    ended = await watch.until("a", RunState.EXITED)
    assert (ended.reason, ended.evidence["signal"]) == ("killed", "SIGKILL")
    assert left_of("a") == set()


async def everything_killed(place: LocalSite) -> None:
    """Controller, runner and program die together, as with a machine that loses its power."""
    await controller_killed_at(place, RunState.READY)
    runner = holder(place.state / "runs" / "a" / "lock")
    assert runner is not None
    for pid in (runner, *left_of("a")):
        await killed(pid)
    assert left_of("a") == set()


async def killed(pid: int) -> None:
    """Waits for its end, although it is no child of ours."""
    descriptor, ended = os.pidfd_open(pid), asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    os.kill(pid, signal.SIGKILL)
    await asyncio.wait_for(ended.wait(), BOUND)
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)


async def test_what_died_with_its_runner_is_lost_and_says_so(place: LocalSite) -> None:
    await everything_killed(place)
    reader = place.cluster()
    assert (await reader.get("a")).state is RunState.UNKNOWN  # nobody looks after it: nothing may be concluded
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        if (await cluster.get("a")).state is not RunState.EXITED:
            await watch.until("a", RunState.EXITED)
    assert (await cluster.get("a")).reason == "lost"
    await cluster.close()


async def test_after_a_restart_of_the_machine_that_is_the_reason(place: LocalSite) -> None:
    await everything_killed(place)
    store = Store(place.state / "runs")
    record = store.load("a")
    assert record is not None
    record.boot = "an earlier start of this machine"
    store.save(record)
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        if (await cluster.get("a")).state is not RunState.EXITED:
            await watch.until("a", RunState.EXITED)
    assert (await cluster.get("a")).reason == "host_shutdown"
    await cluster.close()


async def test_the_agent_dies_and_runs_go_on_while_figures_are_unknown(place: LocalSite) -> None:
    share = GpuShare(1, 8 * GIB, 300, 300)
    cluster = place.cluster()
    await cluster.start()
    async with watching(cluster) as watch:
        await cluster.apply(place.spec("a", gpu=share))
        await watch.until("a", RunState.WAITING, "agent_unavailable")
        with pytest.raises(Unavailable):
            await cluster.inventory()
        async with place.cards("h100"):
            await watch.until("a", RunState.READY)
        with pytest.raises(Unavailable):
            await cluster.inventory()
        assert (await facts(cluster, "a"))["authorised"]
        await cluster.delete("a", grace_seconds=5)
        await watch.until("a", RunState.EXITED)
        async with place.cards("h100"):
            await cluster.apply(place.spec("b", gpu=GpuShare(1, GIB, 1000, 1000)))
            await watch.until("b", RunState.READY)  # on the same card: the claim that was left is swept
            (card,) = (await cluster.inventory()).cards
            assert [h.uid for h in card.holders] == ["b"]
            await cluster.delete("b", grace_seconds=5)
            await watch.until("b", RunState.EXITED)
    await cluster.close()
