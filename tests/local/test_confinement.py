"""What a run can see and take, and what it cannot."""

import os
from pathlib import Path

import pytest

from apps.cluster.drivers.local import LocalCluster, reading
from apps.cluster.drivers.local.runner import groups
from apps.cluster.specs import RunState
from apps.core.share import GIB, MIB, GpuShare, Resources
from tests.contract.local_site import LocalSite
from tests.contract.watching import Watcher, facts
from tests.local.conftest import left_of

ROOT = os.geteuid() == 0


async def test_a_program_gets_nothing_of_ours(
    place: LocalSite, cluster: LocalCluster, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSERA_SECRET_KEY", "of the portal")
    await cluster.apply(place.spec("a"))
    await watch.until("a", RunState.READY)
    seen = await facts(cluster, "a")
    assert not any("of the portal" in value for value in seen["environment"].values())
    assert seen["descriptors"][:4] == [0, 1, 2, 3]
    assert len(seen["descriptors"]) <= 6  # its own: the connection, and the folder that it lists just now
    assert seen["status"]["NoNewPrivs"].strip() == "1"
    assert seen["status"]["Umask"].strip() == "0077"
    assert int(seen["status"]["SigBlk"], 16) == 0
    assert seen["core_limit"] == [0, 0]
    if ROOT:
        assert seen["uid"] >= 300_000
        assert seen["groups"] == []


async def said(place: LocalSite, cluster: LocalCluster, watch: Watcher, path: str | Path, account: str) -> str:
    """What a run of this account reads in a file."""
    uid = f"reader-{len(watch.seen)}"
    await cluster.apply(place.spec(uid, "read", str(path), account=account))
    await watch.until(uid, RunState.EXITED)
    return (await cluster.logs(uid)).text


async def test_a_run_reads_neither_state_nor_others_environment_nor_ledger(place: LocalSite) -> None:
    cluster = place.cluster()
    async with place.cards("h100"):
        await cluster.start()
        watch = Watcher(cluster)
        await cluster.apply(place.spec("a", gpu=GpuShare(1, GIB, 100, 100)))
        await watch.until("a", RunState.READY)
        pid = (await facts(cluster, "a"))["pid"]
        (place.state / "tessera.sqlite3").write_text("rows")
        secrets = [
            place.state / "runs" / "a" / "record.json",
            place.state / "accounts.json",
            place.state / "claims" / "a-1" / "ledger",
            Path(f"/proc/{pid}/environ"),
        ]
        for path in secrets[: None if ROOT else 0]:
            assert "refused: Permission denied" in await said(place, cluster, watch, path, "physics/bob"), path
        own = [place.state / "claims" / "a-1" / "ledger", Path(f"/proc/{pid}/environ")]
        for path in own:
            assert "read:" in await said(place, cluster, watch, path, "physics/ada"), path
        inventory = await cluster.inventory()
        assert inventory.isolation == ("accounts_per_tenant" if ROOT else "single_account")
        await cluster.delete("a", grace_seconds=0)
        await watch.until("a", RunState.EXITED)
        await watch.close()
        await cluster.close()


async def test_more_ram_than_asked_for_ends_the_run_where_the_machine_permits_limits(
    place: LocalSite, cluster: LocalCluster, watch: Watcher
) -> None:
    little = Resources(gpu=None, cpu_milli=1000, ram=128 * MIB)
    await cluster.apply(place.spec("a", "eat", str(256 * MIB), resources=little))
    ended = await watch.until("a", RunState.EXITED)
    limited = groups.limiting(groups.bases(reading.key(place.state), make=False))
    assert ended.reason == ("out_of_memory_host" if limited else "exited")
    assert ("full" in (await cluster.logs("a")).text) == (not limited)


async def test_a_flood_of_output_stays_within_bounds(place: LocalSite, cluster: LocalCluster, watch: Watcher) -> None:
    await cluster.apply(place.spec("a", "flood", str(64 * MIB)))
    await watch.until("a", RunState.READY)
    await cluster.delete("a", grace_seconds=5)
    await watch.until("a", RunState.EXITED)
    log = next((place.state / "runs" / "a").glob("log-*"))
    assert log.stat().st_size > 64 * MIB
    assert log.stat().st_blocks * 512 < 32 * MIB
    assert (await cluster.logs("a", offset=-30)).text.splitlines()[-2:] == ["last line", "serving"]


async def test_everything_ends_with_the_portal_and_says_why(
    place: LocalSite, cluster: LocalCluster, watch: Watcher
) -> None:
    for uid, word in (("a", "serve"), ("b", "deaf")):
        await cluster.apply(place.spec(uid, word))
        await watch.until(uid, RunState.READY)
    await cluster.stop_everything(1)
    for uid in ("a", "b"):
        assert left_of(uid) == set()
        seen = await cluster.get(uid)
        assert (seen.state, seen.reason) == (RunState.EXITED, "host_shutdown")
