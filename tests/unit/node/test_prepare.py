"""A claim's folder: whole or absent, with the right owners, found again."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from vcuda.node import prepare
from vcuda.node.claims import Claim, Part, new_record
from vcuda.node.errors import Unavailable
from vcuda.node.layout import ConfigFile, LayoutError, LedgerFile
from vcuda.node.prepare import CUDA, NVML, Libraries

GIB = 1024**3


@pytest.fixture
def libraries(tmp_path: Path) -> Libraries:
    """Files in the places of the libraries; what is in them does not matter here."""
    for folder in ("lib", "sim"):
        (tmp_path / folder).mkdir()
        for name in (CUDA, NVML):
            (tmp_path / folder / name).write_text(f"{folder} {name}")
    (tmp_path / "node").write_text("")
    driver = {name: tmp_path / "sim" / name for name in (CUDA, NVML)}
    return Libraries(shim=tmp_path / "lib", driver=driver, sim_node=tmp_path / "node")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    claims = tmp_path / "claims"
    claims.mkdir(mode=0o711)
    return claims


def make(name: str = "a", *, uid: int | None = None, compute: int = 300) -> Claim:
    part = Part(uuid="GPU-card", memory=8 * GIB, compute=compute, ceiling=500)
    return Claim(name=name, parts=(part,), uid=os.geteuid() if uid is None else uid, gid=os.getegid())


def put(root: Path, claim: Claim, libraries: Libraries) -> Path:
    return prepare.prepare(root, claim, [new_record(part) for part in claim.parts], libraries)


def test_the_folder_holds_all_that_the_library_needs(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    assert sorted(path.name for path in folder.iterdir()) == ["config", "ledger", "lib", "lock", "log"]
    assert (folder / "lib" / CUDA).read_text() == f"lib {CUDA}"
    assert (folder / "lib" / "driver" / NVML).read_text() == f"sim {NVML}"
    assert (folder / "lib" / "claim").resolve() == folder
    assert (folder / "lib" / "driver" / "tessera-sim.node").resolve() == libraries.sim_node


def test_both_files_carry_the_claims_tag(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    assert ConfigFile(folder / "config").tag == LedgerFile(folder / "ledger").tag == prepare.tag_of("a")


def test_the_programs_may_read_their_limits_and_write_their_books_only(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"a": 0o750, "config": 0o644, "ledger": 0o600, "lock": 0o600, "log": 0o600, "lib": 0o755}


def test_the_books_belong_to_the_account_and_the_limits_to_the_agent(root: Path, libraries: Libraries) -> None:
    agent = os.geteuid()
    account = 300_017 if agent == 0 else agent  # only root can give files away
    folder = put(root, make(uid=account), libraries)
    owners = {name: (folder / name).stat().st_uid for name in ("config", "ledger", "lock", "log", ".")}
    assert owners == {"config": agent, "ledger": account, "lock": account, "log": account, ".": agent}


def test_making_it_again_changes_nothing(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    before = (folder / "config").stat()
    put(root, make(compute=400), libraries)
    assert (folder / "config").stat() == before


def test_what_a_killed_agent_left_half_made_is_cleared_away(root: Path, libraries: Libraries) -> None:
    put(root, make(), libraries)
    for rubbish in (".new-b", ".gone-c"):
        (root / rubbish / "lib").mkdir(parents=True)
    assert [folder.name for folder in prepare.found(root)] == ["a"]
    assert sorted(path.name for path in root.iterdir()) == ["a"]


def test_a_half_made_claim_is_begun_anew(root: Path, libraries: Libraries) -> None:
    (root / ".new-a" / "lib" / "driver").mkdir(parents=True)
    folder = put(root, make(), libraries)
    assert prepare.adopt(folder).parts == make().parts


def test_a_missing_library_leaves_no_claim(root: Path, libraries: Libraries) -> None:
    (libraries.shim / NVML).unlink()
    with pytest.raises(Unavailable, match="make vcuda"):
        put(root, make(), libraries)
    assert not (root / "a").exists()


def test_a_claim_is_the_same_after_a_restart(root: Path, libraries: Libraries) -> None:
    claim = make()
    assert prepare.adopt(put(root, claim, libraries)) == claim


def test_a_folder_of_another_layout_is_not_adopted(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    with (folder / "config").open("r+b") as file:
        file.write(b"SOMETHING ELSE")
    with pytest.raises(LayoutError):
        prepare.adopt(folder)


def test_removing_twice_is_no_error(root: Path, libraries: Libraries) -> None:
    put(root, make(), libraries)
    prepare.remove(root, "a")
    prepare.remove(root, "a")
    assert list(root.iterdir()) == []


def test_libraries_outlive_their_build_folder(root: Path, libraries: Libraries) -> None:
    folder = put(root, make(), libraries)
    shutil.rmtree(libraries.shim)
    assert (folder / "lib" / CUDA).read_text() == f"lib {CUDA}"


def test_a_real_driver_is_linked_not_copied(root: Path, libraries: Libraries) -> None:
    real = Libraries(shim=libraries.shim, driver=libraries.driver, sim_node=None)
    folder = put(root, make(), real)
    assert (folder / "lib" / "driver" / CUDA).is_symlink()
    assert not (folder / "lib" / "driver" / "tessera-sim.node").exists()


def test_an_account_that_could_not_reach_its_claim_is_refused(root: Path) -> None:
    root.chmod(0o700)
    assert prepare.closed_parent(root, uid=os.geteuid() + 1) == root
    assert prepare.closed_parent(root, uid=os.geteuid()) is None


def test_the_environment_names_cards_claim_and_library(root: Path) -> None:
    assert prepare.environment(root, make()) == {
        "LD_LIBRARY_PATH": f"{root}/a/lib",
        "CUDA_VISIBLE_DEVICES": "GPU-card",
        "TESSERA_CLAIM": "a",
    }


def test_an_agent_without_root_cannot_give_files_to_another_account(root: Path) -> None:
    agent = os.geteuid()
    if agent == 0:
        os.seteuid(65_534)
    try:
        with pytest.raises(Unavailable) as refusal:
            prepare.check_account(root, make(uid=300_017))
    finally:
        os.seteuid(agent)
    assert refusal.value.code == "not_root"


def test_a_contained_claim_of_a_real_driver_has_empty_files_for_it(tmp_path: Path) -> None:
    """They are what the container runtime mounts the driver's files over; a link would lead to the container's own files."""
    part = Part(uuid="GPU-1", memory=1 << 30, compute=100, ceiling=100)
    claim = Claim(name="c", parts=(part,), uid=os.geteuid(), gid=os.getegid(), contained=True)
    for name in (CUDA, NVML):
        (tmp_path / name).write_text("the library")
    real = Libraries(shim=tmp_path, driver={CUDA: Path("/usr/lib/x"), NVML: Path("/usr/lib/y")}, sim_node=None)
    folder = prepare.prepare(tmp_path, claim, [new_record(part)], real)
    for name in (CUDA, NVML):
        assert not (folder / "lib/driver" / name).is_symlink()
        assert (folder / "lib/driver" / name).read_bytes() == b""
    assert os.readlink(folder / "lib/claim") == "/run/tessera/claim"
    assert prepare.adopt(folder) == claim


def test_a_contained_claim_needs_no_open_folders(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    part = Part(uuid="GPU-1", memory=1 << 30, compute=100, ceiling=100)
    prepare.check_account(tmp_path, Claim(name="c", parts=(part,), uid=os.geteuid(), gid=os.getegid(), contained=True))
