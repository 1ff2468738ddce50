"""Records survive the way to disk and back; names of claims lead back to workloads."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pytest

from apps.cluster.drivers.local.placement import Grant
from apps.cluster.drivers.local.records import Record, Store, uid_of_claim
from apps.cluster.specs import Port, Probe, RunSpec, RunState, Volume
from apps.core.errors import InvalidInput
from apps.core.share import GIB, GpuShare, Resources


def spec(uid: str = "a", run: int = 1, gpu: GpuShare | None = None) -> RunSpec:
    return RunSpec(
        uid=uid,
        run=run,
        kind="experiment",
        name="光谱 Ünï",
        slug="a",
        tenant="physics",
        owner="ada",
        account="physics/ada",
        environment="notebook",
        command=("tessera-notebook",),
        resources=Resources(gpu=gpu, cpu_milli=2000, ram=4 * GIB),
        env=MappingProxyType({"A": "1"}),
        ports=(Port("http"),),
        volumes=(Volume("home", "~"),),
        probe=Probe("http", "/api/status"),
        labels={"owner": "Ada"},
    )


def full() -> Record:
    at = datetime(2026, 3, 2, 9, 0, 0, 123, tzinfo=UTC)
    return Record(
        spec=spec(gpu=GpuShare(1, 8 * GIB, 300, 1000)),
        accepted_at=at,
        state=RunState.READY,
        since=at,
        reason="ready",
        evidence={"cards": [1]},
        attempt=2,
        grants=(Grant("GPU-1", 8 * GIB, 300, 1000),),
        ports={"http": 40000},
        token="secret",
        uid_number=300_000,
        gid_number=300_000,
        groups=("/sys/fs/cgroup/x",),
        boot="b",
        grace=2.5,
        successor=spec(run=2),
    )


def test_a_record_is_the_same_after_the_way_through_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create(spec())
    store.save(full())
    assert store.load("a") == full()
    assert list(store.all()) == [full()]


def test_only_the_owner_reads_a_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create(spec())
    assert (tmp_path / "a" / "record.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_new_run_forgets_what_the_earlier_one_left(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = store.create(spec(run=1))
    for name in ("exit.json", "stop.json", "main.json", store.log(old).name):
        (tmp_path / "a" / name).write_text("{}")
    store.create(spec(run=2))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["record.json"]


@pytest.mark.parametrize("content", ["", "{", '{"spec": null}'[:5]])
def test_a_torn_record_is_no_run_and_stops_nobody(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.create(spec("a"))
    store.create(spec("b"))
    (tmp_path / "a" / "record.json").write_text(content)
    assert [record.uid for record in store.all()] == ["b"]


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "-a", "x" * 81, "é"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, uid: str) -> None:
    with pytest.raises(InvalidInput):
        Store(tmp_path).folder(uid)


def test_strangers_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "driver.lock").touch()
    (tmp_path / "lost+found").mkdir()
    assert list(Store(tmp_path).all()) == []


def test_the_claim_of_a_run_leads_back_to_its_workload() -> None:
    assert uid_of_claim(full().claim) == "a"
    assert uid_of_claim("0198-7c-a1-12") == "0198-7c-a1"
    assert uid_of_claim("somebody") == "somebody"
    assert uid_of_claim("-1") == "-1"


def test_the_token_is_nowhere_in_what_is_observed() -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    assert "secret" not in json.dumps(str(full().observation("here", at)))
