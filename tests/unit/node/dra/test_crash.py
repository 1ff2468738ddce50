"""Killed between any two changes of the file system, the same call again succeeds, and nothing is left when the claim goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.node.dra.dying import UID, claims_at, prepare

PROJECT = Path(__file__).parents[4]


def killed_everywhere(folder: Path, operation: str) -> list[Path]:
    """One folder for each change at which the operation was killed."""
    command = [sys.executable, "-m", "tests.unit.node.dra.dying", str(folder), operation]
    ran = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, check=True)
    folders = [folder / str(number) for number in range(1, int(ran.stdout))]
    assert len(folders) > 5
    return folders


@pytest.mark.parametrize("operation", ["prepare", "unprepare"])
@pytest.mark.parametrize("then", ["prepare", "unprepare"])
def test_the_next_call_finishes_what_was_cut(tmp_path: Path, operation: str, then: str) -> None:
    for folder in killed_everywhere(tmp_path, operation):
        claims = claims_at(folder)
        node = claims._node
        if then == "prepare":
            prepare(claims)
            assert set(node.claims) == {UID}
            assert node.unreadable == {}
            assert (node.root / UID / "lib/driver/libcuda.so.1").exists()
            assert [path.name for path in (folder / "cdi").iterdir()] == [f"tessera-{UID}.json"]
        claims.release(UID)
        assert list(node.root.iterdir()) == []
        assert list((folder / "cdi").iterdir()) == []
        node.close()


def test_what_is_on_disk_can_be_found_without_being_asked_for(tmp_path: Path) -> None:
    """Whoever was killed in `prepare` and is never asked again: the claim's owner is known wherever its folder is there."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in [*killed_everywhere(tmp_path / "a", "prepare"), *killed_everywhere(tmp_path / "b", "unprepare")]:
        claims = claims_at(folder)
        owners = {uid for uid, _, _ in claims._cdi.owners()}
        assert set(claims._node.claims) <= owners
        claims._node.close()
