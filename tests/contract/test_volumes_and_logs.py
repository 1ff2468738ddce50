"""Files and output of runs: kept for those whom they belong to, gone when they shall be gone."""

import pytest

from apps.cluster.protocol import Cluster
from apps.cluster.specs import RunState
from apps.core.errors import Conflict
from tests.contract.conftest import Place
from tests.contract.watching import Watcher, facts


async def finished(cluster: Cluster, watch: Watcher, uid: str) -> str:
    """Its whole output, once it has ended."""
    await watch.until(uid, RunState.EXITED)
    return (await cluster.logs(uid, limit=1024**2)).text


async def test_a_home_outlives_its_run(place: Place, cluster: Cluster, watch: Watcher) -> None:
    home = place.spec("a").volumes
    await cluster.apply(place.spec("a", "touch", "alone"))
    await watch.until("a", RunState.EXITED)
    await cluster.apply(place.spec("b", "alone", volumes=home))
    assert (await watch.until("b", RunState.EXITED)).exit_code == 9


async def test_a_removed_volume_is_empty_the_next_time(place: Place, cluster: Cluster, watch: Watcher) -> None:
    home = place.spec("a").volumes
    await cluster.apply(place.spec("a", "alone"))
    await watch.until("a", RunState.READY)
    with pytest.raises(Conflict):
        await cluster.remove_volume(home[0].name)
    await cluster.delete("a", grace_seconds=0)
    await watch.until("a", RunState.EXITED)
    await cluster.remove_volume(home[0].name)
    await cluster.remove_volume(home[0].name)
    await cluster.apply(place.spec("b", "alone", volumes=home))
    await watch.until("b", RunState.READY)


@pytest.mark.parametrize("name", ["home 量子/é", "a%2Fb", "x" * 100])
async def test_any_name_of_a_volume_is_one_folder(place: Place, cluster: Cluster, watch: Watcher, name: str) -> None:
    home = place.spec("a").volumes[0]
    volumes = (type(home)(name, "~"),)
    await cluster.apply(place.spec("a", "serve", volumes=volumes))
    await cluster.apply(place.spec("b", "serve"))
    await watch.until("a", RunState.READY)
    await watch.until("b", RunState.READY)
    assert (await facts(cluster, "a"))["home"] != (await facts(cluster, "b"))["home"]


async def test_another_account_cannot_read_a_home(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "alone"))
    await watch.until("a", RunState.READY)
    mark = (await facts(cluster, "a"))["home"] + "/alone"
    await cluster.apply(place.spec("friend", "read", mark))
    assert "read:" in await finished(cluster, watch, "friend")
    stranger = place.spec("stranger", "read", mark, account="physics/bob", owner="bob")
    await cluster.apply(stranger)
    said = await finished(cluster, watch, "stranger")
    apart = "refused: Permission denied" in said
    assert apart == place.keeps_accounts_apart, said


async def test_output_is_read_piece_by_piece_without_loss(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "say", "300"))
    whole = await finished(cluster, watch, "a")
    assert whole.splitlines()[299] == "line 299 第299行"
    pieces, offset = [], 0
    while True:
        chunk = await cluster.logs("a", offset=offset, limit=101)  # cuts characters apart
        pieces.append(chunk.text)
        assert chunk.offset == offset
        offset = chunk.next
        if chunk.eof:
            break
    assert "".join(pieces) == whole


async def test_a_negative_offset_counts_from_the_end(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "say", "10"))
    whole = await finished(cluster, watch, "a")
    chunk = await cluster.logs("a", offset=-20)
    assert chunk.eof
    assert whole.encode().endswith(chunk.text.encode()[-16:])
    assert 0 < len(chunk.text.encode()) <= 20


async def test_output_of_a_running_program_has_no_end_yet(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    chunk = await cluster.logs("a")
    assert "serving" in chunk.text
    assert not chunk.eof


async def test_a_later_run_begins_a_new_output(place: Place, cluster: Cluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "say", "5"))
    await watch.until("a", RunState.EXITED, run=1)
    await cluster.apply(place.spec("a", "say", "1", run=2))
    await watch.until("a", RunState.EXITED, run=2)
    assert (await cluster.logs("a")).text == "line 0 第0行\n"
