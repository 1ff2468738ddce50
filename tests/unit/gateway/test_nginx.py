"""The configuration that is written for nginx."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.core.errors import Unavailable
from apps.gateway import nginx


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below pytest's own folder: nginx's account could not walk there.
    with tempfile.TemporaryDirectory(prefix="tsr-ng-") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "gateway"


def test_the_folder_is_closed_to_all_but_nginx(folder: Path) -> None:
    command = nginx.prepare(folder, listen="127.0.0.1:1")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    expected = nginx.ACCOUNT if os.geteuid() == 0 else os.geteuid()
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {expected}
    assert command.account == (nginx.ACCOUNT if os.geteuid() == 0 else None)


def test_the_domain_is_a_literal_in_the_pattern(folder: Path, settings: Settings) -> None:
    settings.GATEWAY_DOMAIN = "gpu.example.org"
    nginx.prepare(folder, listen="127.0.0.1:1")
    assert r"\.gpu\.example\.org$" in (folder / "nginx.conf").read_text()


def test_a_folder_that_nginx_cannot_reach_is_named_before_nginx_fails(folder: Path) -> None:
    folder.parent.chmod(0o700)
    if os.geteuid() == 0:
        with pytest.raises(Unavailable, match=f"chmod o\\+x {folder.parent}"):
            nginx.prepare(folder, listen="127.0.0.1:1")
    else:  # it runs under our own account, which can
        nginx.prepare(folder, listen="127.0.0.1:1")


@pytest.mark.parametrize("domain", ["", "Example.org", "a b", 'x";return 200;#', "x{", "*.example.org"])
def test_what_is_no_domain_does_not_reach_the_configuration(tmp_path: Path, settings: Settings, domain: str) -> None:
    settings.GATEWAY_DOMAIN = domain
    with pytest.raises(Unavailable, match="TESSERA_GATEWAY_DOMAIN"):
        nginx.prepare(tmp_path / "g", listen="127.0.0.1:1")


def test_a_folder_too_deep_for_a_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="TESSERA_STATE"):
        nginx.socket_path(tmp_path / ("deep" * 30))


def test_a_missing_nginx_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_named: None)
    with pytest.raises(Unavailable, match="apt-get install nginx-light libnginx-mod-http-lua"):
        nginx.prepare(tmp_path / "g", listen="127.0.0.1:1")
