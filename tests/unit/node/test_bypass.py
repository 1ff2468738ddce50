"""What is called a bypass, after how long, and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.node.claimed import CARD, GIB, MS, LibrarySide, body, look, make_node
from tests.unit.node.test_node import NOW, slot_held
from vcuda.node.bypass import MIB, Sight, Watch, Window
from vcuda.node.node import Node
from vcuda.node.nvml import Gauges

CONTEXT = 500 * MIB


def sight(**changes: Any) -> Sight:
    usual: dict[str, Any] = {
        "strangers": {}, "beyond": 0, "contexts": 1, "context_bytes": CONTEXT, "percents": {},
    }  # fmt: skip
    return Sight(**usual | changes)


def window(*, busy: float, launches: int, under_way: bool = False) -> Window:
    return Window(length_ns=200 * MS, busy_ns=int(busy * 200 * MS), counted=(launches, 0, 0, 0), under_way=under_way)


def test_a_process_without_a_slot_is_told_at_the_second_tick() -> None:
    watch = Watch()
    assert not watch.feed(sight(strangers={7: 3 * GIB})), "it may be one that was just ending"
    assert not watch.pids
    assert watch.feed(sight(strangers={7: 3 * GIB}))
    told: tuple[Any, Any] = (watch.evidence, watch.pids)
    assert told == ({"uncounted_bytes": 3 * GIB, "busy_permille": 0}, frozenset({7}))
    assert not watch.feed(sight(strangers={7: 4 * GIB})), "it has begun already"
    assert watch.evidence == {"uncounted_bytes": 4 * GIB, "busy_permille": 0}


def test_two_that_are_seen_once_each_are_not_one_that_stays() -> None:
    watch = Watch()
    for pid in range(10):
        assert not watch.feed(sight(strangers={pid: GIB}))
    assert watch.evidence is None


def test_bytes_beside_the_books_of_a_known_process_are_told_at_the_second_tick() -> None:
    watch = Watch()
    assert not watch.feed(sight(beyond=GIB))
    assert watch.feed(sight(beyond=GIB))
    assert watch.evidence == {"uncounted_bytes": GIB, "busy_permille": 0}


def test_what_contexts_weigh_more_than_was_measured_is_none() -> None:
    """As the library has learned it on this card: half of a context for each, and 64 MiB where nothing was learned."""
    watch = Watch()
    for beyond, contexts, learned in ((CONTEXT // 2, 1, CONTEXT), (4 * CONTEXT // 2, 4, CONTEXT), (64 * MIB, 1, 0)):
        for _ in range(5):
            assert not watch.feed(sight(beyond=beyond, contexts=contexts, context_bytes=learned))
    for _ in range(2):
        watch.feed(sight(beyond=64 * MIB + 1, context_bytes=0))
    assert watch.evidence is not None


def test_what_is_not_known_is_not_called_anything() -> None:
    watch = Watch()
    for _ in range(5):
        assert not watch.feed(sight(beyond=None, strangers={7: None}))


def test_a_stranger_that_is_busy_is_told_with_its_share() -> None:
    watch = Watch()
    for _ in range(2):
        watch.feed(sight(strangers={7: 0}, percents={7: 40, 8: 60}))
    assert watch.evidence == {"uncounted_bytes": 0, "busy_permille": 400}


def test_a_card_that_is_busy_for_a_claim_that_launches_nothing_is_told_after_a_second() -> None:
    watch = Watch()
    for _ in range(5):
        watch.window(window(busy=0.6, launches=3))
        assert not watch.feed(sight())
    watch.window(window(busy=0.6, launches=3))
    assert watch.feed(sight())
    assert watch.evidence == {"uncounted_bytes": 0, "busy_permille": 600}


@pytest.mark.parametrize(
    "later",
    [
        lambda number: window(busy=0.9, launches=number),
        lambda number: window(busy=0.9, launches=3, under_way=True),
        lambda number: window(busy=0.05, launches=3),
    ],
    ids=["it launches", "a long kernel is under way", "noise"],
)
def test_work_that_the_books_explain_is_none(later: Any) -> None:
    watch = Watch()
    for number in range(30):
        watch.window(later(number))
        assert not watch.feed(sight())


def test_it_is_over_when_nothing_was_seen_for_two_seconds() -> None:
    watch = Watch()
    for _ in range(2):
        watch.feed(sight(strangers={7: GIB}))
    for _ in range(19):
        watch.feed(sight())
        assert watch.evidence is not None
    watch.feed(sight())
    assert watch.evidence is None
    watch.feed(sight(strangers={7: GIB}))
    assert watch.feed(sight(strangers={7: GIB})), "and may begin again"


# --- On a node ---------------------------------------------------------------------------------------------------------------
@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make_node(tmp_path)


@contextmanager
def marked_only() -> Iterator[int]:
    """A process of claim "a" by its environment, which never took a slot; its id."""
    command = [sys.executable, "-c", "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"]
    env = os.environ | {"TESSERA_CLAIM": "a"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate()


def seen(node: Node) -> object:
    """Of claim "a", as the next sample tells it."""
    node.second({CARD: Gauges()}, node.ticked_ns or 0, NOW)
    (sample,) = [sample for sample in node.samples if sample.subject == f"run:a:{CARD}"]
    return sample.bypass


def test_a_process_that_holds_a_slot_is_none_and_one_beside_it_is_named(node: Node) -> None:
    node.put("a", body())
    with slot_held(node.root / "a", slot=0) as honest, slot_held(node.root / "a", slot=1) as other:
        LibrarySide(node.root / "a", slot=0).allocate(2 * GIB)
        LibrarySide(node.root / "a", slot=1).allocate(0)
        for tick in range(4):
            node.tick({CARD: look(used={honest: 2 * GIB, other: 0})}, tick * 100 * MS)
        assert seen(node) is None
    with marked_only() as rogue:
        for tick in range(4, 6):
            node.tick({CARD: look(used={rogue: 3 * GIB})}, tick * 100 * MS)
        found = seen(node)
        assert isinstance(found, dict)
        assert found["uncounted_bytes"] == 3 * GIB
        assert len(found["processes"]) == 1
        assert f"({rogue})" in found["processes"][0]


def test_strangers_of_nobody_are_no_claims_bypass(node: Node) -> None:
    node.put("a", body())
    for tick in range(4):
        node.tick({CARD: look(used={1: 9 * GIB})}, tick * 100 * MS)
    assert seen(node) is None
