"""Kills itself at the N-th change of the file system: `arm(n)` in any process, or as a program, every N for one operation.

    python -m tests.unit.node.dra.dying FOLDER prepare|unprepare

makes FOLDER/1, FOLDER/2, … and in each a node on which the operation was killed just before its first, second, … change, until
it comes through without; prints how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.unit.node.apiserver import NODE, resource_claim
from tests.unit.node.claimed import make_node
from vcuda.node.dra.allocation import read_allocation
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.dra.plugin import Claims
from vcuda.node.prepare import Libraries
from vcuda.node.proto import dra_v1_pb2 as dra

UID = "aaaaaaaa-0000-0000-0000-000000000001"
_CHANGES = frozenset(
    {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.remove", "os.rmdir"}
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def arm(number: int, when: Path | None = None) -> None:
    """From now on, or from the moment at which the file `when` exists, this process dies, as by `kill -9`, just before the change
    with that number (from 1)."""
    left = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in _CHANGES and not (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        ):
            return
        if when is None or os.path.exists(when):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def claims_at(folder: Path) -> Claims:
    """The DRA side of an agent that has just started in `folder`; it reads no API server."""
    folder.mkdir(exist_ok=True)
    node = make_node(folder)
    libraries = Libraries(shim=folder, driver={}, sim_node=folder / "sim.node")
    cdi = CdiFolder(folder / "cdi", node.root, libraries, None)
    cdi.clear()
    return Claims(node, None, cdi, NODE)  # type: ignore[arg-type]


def prepare(claims: Claims) -> None:
    node = claims._node
    cards = [card.facts for card in node.cards.values()]
    account = (os.geteuid(), os.getegid())
    allocation = read_allocation(resource_claim(UID), uid=UID, pool=NODE, cards=cards, account=account)
    claims._keep(allocation, dra.Claim(uid=UID, namespace="tenant", name="claim"))


def _killed(folder: Path, operation: str, number: int) -> bool:
    claims = claims_at(folder)
    if operation == "unprepare":
        prepare(claims)
    child = os.fork()
    if child == 0:
        arm(number)
        if operation == "prepare":
            prepare(claims)
        else:
            claims.release(UID)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert status == 0
        return False
    return True


def main() -> None:
    folder, operation = Path(sys.argv[1]), sys.argv[2]
    number = 1
    while _killed(folder / str(number), operation, number):
        number += 1
    print(number)


if __name__ == "__main__":
    main()
