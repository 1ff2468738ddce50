"""The operator's page on settings and the code name the same variables."""

import re
from pathlib import Path

import pytest

from portal import env
from portal.state import open_to_others, secret

PROJECT = Path(__file__).resolve().parents[3]
NAME = re.compile(r"TESSERA_[A-Z_]+[A-Z]")


def named_in(*files: str) -> set[str]:
    return {name for file in files for name in NAME.findall((PROJECT / file).read_text(encoding="utf-8"))}


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    code = named_in("portal/settings.py", "portal/state.py")
    page = named_in("docs/operations/settings.md") - {"TESSERA_SIM_CARDS"}
    assert code == page


def test_a_number_that_is_none_is_refused_with_the_name_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_PORT", "many")
    with pytest.raises(ValueError, match="TESSERA_PORT"):
        env.integer("TESSERA_PORT", 1)


def test_a_value_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from the file\n", encoding="utf-8")
    monkeypatch.setenv("TESSERA_SECRET_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("TESSERA_SECRET_KEY", "from the environment")
    assert env.text("TESSERA_SECRET_KEY") == "from the file"


def test_a_secret_is_made_once_and_closed_to_others(tmp_path: Path) -> None:
    first = secret(tmp_path / "state" / "key")
    assert first == secret(tmp_path / "state" / "key")
    assert len(first) >= 48
    assert (tmp_path / "state" / "key").stat().st_mode & 0o077 == 0


def test_a_folder_below_a_closed_one_is_not_open_to_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "below").mkdir(parents=True)
    closed.chmod(0o700)
    assert not open_to_others(closed / "below")
