"""What every cluster driver promises about one run: it begins, answers, ends, and is described truthfully all the while."""

import asyncio

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import RunState
from apps.core.errors import NotFound
from tests.contract.conftest import Place
from tests.contract.watching import Watcher, facts


async def test_a_run_becomes_ready_and_answers_where_the_cluster_says(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a"))
    ready = await watch.until("a", RunState.READY)
    assert ready.run == 1
    assert watch.states("a") == [RunState.PREPARING, RunState.STARTING, RunState.READY]
    assert (await facts(cluster, "a"))["authorised"]
    assert (await cluster.get("a")).state is RunState.READY


async def test_the_same_run_again_changes_nothing(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    before = await facts(cluster, "a")
    await cluster.apply(place.spec("a", "end", "3"))
    assert (await facts(cluster, "a"))["pid"] == before["pid"]


async def test_it_is_starting_until_it_answers(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "mute", "go-on"))
    await watch.until("a", RunState.STARTING, "starting_server")
    await cluster.apply(place.spec("b", "serve"))
    await watch.until("b", RunState.READY)  # one that answers does not make the other one ready
    assert (await cluster.get("a")).state is RunState.STARTING
    await cluster.apply(place.spec("c", "touch", "go-on", volumes=place.spec("a").volumes))
    await watch.until("a", RunState.READY)


async def test_a_deleted_run_ends_and_no_longer_answers(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    endpoint = await cluster.dial("a", "http")
    await cluster.delete("a", grace_seconds=5)
    ended = await watch.until("a", RunState.EXITED)
    assert (ended.reason, ended.cards) == ("", ())
    assert watch.states("a")[-2:] == [RunState.STOPPING, RunState.EXITED]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(endpoint.host, endpoint.port)
    with pytest.raises(NotFound):
        await cluster.dial("a", "http")


async def test_deleting_twice_is_harmless(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    await cluster.delete("a", grace_seconds=5)
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    assert (await cluster.delete("a", grace_seconds=5)).state in (RunState.EXITED, RunState.ABSENT)


async def test_deleting_before_it_has_begun_begins_nothing(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    assert RunState.READY not in watch.states("a")


async def test_what_ignores_the_request_to_end_is_ended_with_all_that_it_started(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "deaf"))
    await watch.until("a", RunState.READY)
    await cluster.delete("a", grace_seconds=1)
    await watch.until("a", RunState.EXITED)
    # The same home at once: nothing of the first run may be left in it.
    await cluster.apply(place.spec("a", "serve", run=2))
    await watch.until("a", RunState.READY, run=2)


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [(("say", "1"), "exited", 0), (("end", "3"), "crashed", 3), (("die", "9"), "killed", None)],
)
async def test_a_run_that_ends_by_itself_says_how(
    place: Place, cluster: Cluster, watch: Watcher, words: tuple[str, ...], reason: str, code: int | None
) -> None:
    await cluster.apply(place.spec("a", *words))
    ended = await watch.until("a", RunState.EXITED)
    assert (ended.reason, ended.exit_code) == (reason, code)


async def test_an_unknown_environment_is_named_as_the_reason(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", environment="no-such"))
    ended = await watch.until("a", RunState.EXITED)
    assert ended.reason == "environment_missing"
    assert ended.evidence["environment"] == "no-such"


async def test_an_unknown_command_is_not_a_crash(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", command=("no-such-program",), ports=(), probe=None))
    ended = await watch.until("a", RunState.EXITED)
    assert ended.reason == "environment_missing"
    assert RunState.READY not in watch.states("a")


async def test_a_run_without_a_probe_is_ready_when_its_program_runs(
    place: Place, cluster: Cluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "serve", probe=None))
    await watch.until("a", RunState.READY)
    assert RunState.STARTING not in watch.states("a")


async def test_a_later_run_never_runs_beside_the_earlier_one(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "alone"))
    await watch.until("a", RunState.READY, run=1)
    first = await facts(cluster, "a")
    await cluster.apply(place.spec("a", "alone", run=2))
    await watch.until("a", RunState.READY, run=2)
    assert (await facts(cluster, "a"))["pid"] != first["pid"]
    order = [(seen.run, seen.state) for seen in watch.seen]
    assert order.index((1, RunState.EXITED)) < order.index((2, RunState.PREPARING))


async def test_an_earlier_run_asked_for_late_changes_nothing(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", run=2))
    await watch.until("a", RunState.READY, run=2)
    assert (await cluster.apply(place.spec("a", run=1))).run == 2
    assert (await cluster.get("a")).state is RunState.READY


async def test_what_was_never_there_is_absent(cluster: Cluster) -> None:
    assert (await cluster.get("nobody")).state is RunState.ABSENT
    assert (await cluster.delete("nobody", grace_seconds=1)).state is RunState.ABSENT
    with pytest.raises(NotFound):
        await cluster.dial("nobody", "http")
    with pytest.raises(NotFound):
        await cluster.logs("nobody")


async def test_the_list_holds_every_run(place: Place, cluster: Cluster, watch: Watcher) -> None:
    for uid in ("a", "b"):
        await cluster.apply(place.spec(uid))
        await watch.until(uid, RunState.READY)
    assert {seen.uid: seen.state for seen in await cluster.list()} == {"a": RunState.READY, "b": RunState.READY}


async def test_every_observer_sees_every_step(place: Place, cluster: Cluster, watch: Watcher) -> None:
    other = Watcher(cluster)
    await cluster.apply(place.spec("a", "say", "1"))
    await watch.until("a", RunState.EXITED)
    await other.until("a", RunState.EXITED)
    assert other.states("a") == watch.states("a")
    await other.close()
