"""Control groups of both versions, by the files that the kernel shows."""

from pathlib import Path

from apps.cluster.drivers.local.runner import groups


def test_trees_of_a_mixed_machine_are_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
        "tmpfs /tmp tmpfs rw 0 0\n"
    )
    assert groups.trees(str(mounts)) == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "memory": "/sys/fs/cgroup/memory",
        "v2": "/sys/fs/cgroup/unified",
    }


def test_our_own_group_is_found_in_each_tree(tmp_path: Path) -> None:
    table = tmp_path / "cgroup"
    table.write_text("4:memory:/jobs/7\n2:cpu,cpuacct:/\n0::/user.slice/x.scope\n")
    assert groups.own_path("memory", str(table)) == "/jobs/7"
    assert groups.own_path("cpu", str(table)) == "/"
    assert groups.own_path("", str(table)) == "/user.slice/x.scope"


def folder(base: Path, *files: str) -> Path:
    base.mkdir()
    for file in files:
        (base / file).touch()
    return base


def test_limits_are_written_in_the_words_of_each_version(tmp_path: Path) -> None:
    both = [folder(tmp_path / "v2"), folder(tmp_path / "v1")]
    folder(tmp_path / "v2" / "a-1", "memory.max", "cpu.max", "pids.max")
    folder(tmp_path / "v1" / "a-1", "memory.limit_in_bytes", "cpu.cfs_quota_us")
    made = groups.make(map(str, both), "a-1", cpu_milli=1500, ram=2**30)
    assert made == [str(tmp_path / "v2" / "a-1"), str(tmp_path / "v1" / "a-1")]
    assert (tmp_path / "v2/a-1/memory.max").read_text() == "1073741824"
    assert (tmp_path / "v2/a-1/cpu.max").read_text() == "150000 100000"
    assert (tmp_path / "v1/a-1/memory.limit_in_bytes").read_text() == "1073741824"
    assert (tmp_path / "v1/a-1/cpu.cfs_quota_us").read_text() == "150000"


def test_no_limit_writes_nothing_and_missing_files_are_never_made(tmp_path: Path) -> None:
    base = folder(tmp_path / "v2")
    folder(base / "a-1", "memory.max")
    groups.make([str(base)], "a-1", cpu_milli=0, ram=0)
    assert (base / "a-1/memory.max").read_text() == ""
    assert not (base / "a-1/cpu.max").exists()


def test_kills_for_lack_of_memory_are_counted_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    other = folder(tmp_path / "v1")
    (other / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert groups.out_of_memory_kills([str(tmp_path), str(other)]) == 3


def test_a_machine_without_permission_goes_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert groups.make([str(tmp_path / "file")], "a-1", cpu_milli=1000, ram=1) == []
    groups.join([str(tmp_path / "none")])
    groups.remove([str(tmp_path / "none")])
    assert groups.out_of_memory_kills([str(tmp_path / "none")]) == 0
