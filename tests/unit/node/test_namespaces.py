"""Who holds a slot, in the numbers of this process's own namespace, whatever namespace the holder lives in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.node.claimed import CARD, GIB, LibrarySide, body, look, make_node
from tests.unit.node.test_node import HOLDER
from vcuda.node.attribute import Attribution

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making a process namespace needs root")


@contextmanager
def contained(claim: Path, slot: int, *, marker: str) -> Iterator[int]:
    """The first process of a namespace of its own holds a slot, as in a container; its process id as seen from here."""
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", HOLDER, str(claim / "lock"), str(slot)]
    env = os.environ | {"TESSERA_CLAIM": marker}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == b"1\n", "it thinks of itself as process 1"
        (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        yield int(inner)
        outer.communicate()


def test_a_slot_held_in_another_namespace_shows_our_number_of_its_holder(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for name in ("a", "b"):
        node.put(name, body())
        LibrarySide(node.root / name)
    with contained(node.root / "a", 0, marker="a") as first, contained(node.root / "b", 0, marker="b") as second:
        node.tick({CARD: look(used={first: GIB, second: 2 * GIB})}, 1)
        seen = {name: kept.now.processes for name, kept in node.claims.items() if kept.now}
        assert seen == {"a": (first,), "b": (second,)}
        assert node.claims["a"].processes() == {first: "library"}
        assert {name: kept.parts[CARD].observed_bytes for name, kept in node.claims.items()} == {"a": GIB, "b": 2 * GIB}


def test_a_process_in_another_namespace_is_found_by_its_environment(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with contained(tmp_path, 0, marker="claim-a") as pid:
        assert Attribution().claim_of(pid, {"claim-a": 0, "claim-b": 0}) == "claim-a"
