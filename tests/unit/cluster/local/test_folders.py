"""Homes and scratch belong to one account each; the state folder's doors are closed."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.local.accounts import Accounts, Identity
from apps.cluster.drivers.local.folders import Folders
from apps.cluster.specs import Volume
from apps.core.errors import InvalidInput

OWN = Identity(os.geteuid(), os.getegid())


@given(st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=2, unique=True))
def test_two_names_never_share_a_folder_and_none_leaves_the_homes(names: list[str]) -> None:
    folders = Folders(Path("/state"))
    found = {}
    for name in names:
        with suppress(InvalidInput):
            found[name] = folders.volume(name)
    assert len(set(found.values())) == len(found)
    assert all(path.parent == Path("/state/homes") and path.name not in (".", "..") for path in found.values())


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "x" * 201])
def test_names_that_are_no_plain_folder_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Folders(Path("/state")).volume(name)


def test_a_run_has_a_home_that_stays_and_scratch_that_begins_empty(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    places = folders.make("a-1", (Volume("home", "~"),), OWN)
    (places.home / "kept").touch()
    (places.temporary / "lost").touch()
    again = folders.make("a-2", (Volume("home", "~"),), OWN)
    assert [path.name for path in again.home.iterdir()] == ["kept"]
    assert list(folders.make("a-1", (), OWN).temporary.iterdir()) == []
    for folder in (places.home, places.temporary, places.runtime):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_volume_the_home_goes_with_the_run(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    home = folders.make("a-1", (), OWN).home
    folders.drop_scratch("a-1")
    assert not home.exists()


def test_a_link_left_in_scratch_is_never_followed(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    places = folders.make("a-1", (), OWN)
    places.temporary.rmdir()
    places.temporary.symlink_to(target)
    folders.make("a-1", (), OWN)
    assert target.stat().st_mode & 0o777 == 0o755
    assert not (tmp_path / "scratch" / "a-1" / "tmp").is_symlink()


def test_only_the_home_is_a_volume_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        Folders(tmp_path).make("a-1", (Volume("data", "/data"),), OWN)


def test_removing_a_volume_takes_all_of_it_and_missing_is_fine(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    (folders.make("a-1", (Volume("home", "~"),), OWN).home / "deep").mkdir()
    folders.remove_volume("home")
    folders.remove_volume("home")
    assert list((tmp_path / "homes").iterdir()) == []


def test_as_root_what_accounts_need_not_reach_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "tessera.sqlite3").touch(mode=0o644)
    (tmp_path / "logs").mkdir(mode=0o755)
    for name in ("environments", "claims", "run"):
        (tmp_path / name).mkdir(mode=0o755)
    Folders(tmp_path).prepare()
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    assert modes["tessera.sqlite3"] == modes["logs"] == modes["runs"] == 0
    for name in ("homes", "scratch", "environments", "claims", "run"):
        assert modes[name] == 0o011
    assert tmp_path.stat().st_mode & 0o777 == 0o711


def test_an_account_keeps_its_number_and_no_two_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    first = Accounts(tmp_path, 700_000)
    ada, bob = first.identity("physics/ada"), first.identity("physics/bob")
    assert ada is not None
    assert bob is not None
    assert ada.uid != bob.uid
    assert Accounts(tmp_path, 700_000).identity("physics/ada") == ada
    other_base = Accounts(tmp_path, 800_000).identity("chemistry/eve")
    assert other_base is not None
    assert other_base.uid not in (ada.uid, bob.uid)


def test_a_number_of_somebody_here_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Accounts(tmp_path, 0).identity("physics/ada") != Identity(0, 0)


def test_without_root_everything_runs_under_the_one_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Accounts(tmp_path).identity("physics/ada") is None
    assert not (tmp_path / "accounts.json").exists()
