"""Runs outlive the driver that began them, and any process may read about them."""

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import RunState
from apps.core.errors import Unavailable
from tests.contract.conftest import Place
from tests.contract.watching import Watcher, facts, until_seen, watching


async def test_a_new_driver_adopts_what_runs(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    before = await facts(cluster, "a")
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    await until_seen(successor, "a", RunState.READY)
    assert (await facts(successor, "a"))["pid"] == before["pid"]
    async with watching(successor) as later:
        await successor.delete("a", grace_seconds=5)
        await later.until("a", RunState.EXITED)
    await successor.close()


async def test_a_new_driver_goes_on_waiting_for_the_first_answer(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "mute", "go-on"))
    await watch.until("a", RunState.STARTING)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    async with watching(successor) as later:
        assert (await successor.get("a")).state is RunState.STARTING
        # A friend in the same home tells the program that it may answer.
        await successor.apply(place.spec("b", "touch", "go-on", volumes=place.spec("a").volumes))
        await later.until("a", RunState.READY)
    await successor.close()


async def test_what_ended_while_nobody_looked_is_found_ended_with_its_reason(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "mute", "go-on"))
    await watch.until("a", RunState.STARTING)
    await cluster.delete("a", grace_seconds=0)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    async with watching(successor) as later:
        if (await successor.get("a")).state is not RunState.EXITED:
            await later.until("a", RunState.EXITED)
    assert (await successor.get("a")).reason == ""
    await successor.close()


async def test_a_reader_sees_and_dials_without_looking_after_anything(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    reader = place.cluster()
    await until_seen(reader, "a", RunState.READY)
    assert [seen.uid for seen in await reader.list()] == ["a"]
    assert (await facts(reader, "a"))["authorised"]
    assert "serving" in (await reader.logs("a")).text
    with pytest.raises(Unavailable):
        await reader.apply(place.spec("b"))
    assert (await reader.get("b")).state is RunState.ABSENT


async def test_two_drivers_never_look_after_the_same_runs(place: Place, cluster: Cluster) -> None:
    second = place.cluster()
    with pytest.raises(Unavailable):
        await second.start()
    assert await cluster.list() == []
