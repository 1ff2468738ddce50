"""The agent's command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcuda.node.options import parse

BASE = ["--state", "/s", "--socket", "/a.sock"]


def test_on_one_machine_nothing_more_is_needed() -> None:
    options = parse(BASE)
    assert (options.kubernetes, options.listen, options.sim_node, options.root) == (None, None, None, Path("/"))


def test_in_a_cluster() -> None:
    cluster = [
        "--kubernetes",
        "--node-name",
        "n",
        "--host-root",
        "/host",
        "--listen",
        "[::]:9400",
        "--token-file",
        "/t",
    ]
    options = parse(BASE + cluster)
    assert options.kubernetes is not None
    assert (options.kubernetes.node_name, options.kubernetes.kubelet) == ("n", Path("/var/lib/kubelet"))
    assert (options.kubernetes.cdi, options.kubernetes.root) == (Path("/var/run/cdi"), Path("/host"))
    assert options.listen is not None
    assert (options.listen.host, options.listen.port, options.listen.token) == ("::", 9400, Path("/t"))


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        (["--kubernetes"], "--node-name"),
        (["--listen", "0.0.0.0:9400"], "--token-file"),
        (["--listen", "9400", "--token-file", "/t"], "HOST:PORT"),
    ],
)
def test_what_is_missing_is_said(more: list[str], missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(BASE + more)
    assert missing in capsys.readouterr().err
