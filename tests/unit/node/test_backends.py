"""A backend's word is not enough: what was written is read back, and a difference is told with both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.node.claimed import CARD, GIB, body, make_node
from vcuda.node.backends.cgroup_memory import CgroupMemory
from vcuda.node.backends.choose import Backends, choose
from vcuda.node.errors import Unavailable
from vcuda.node.node import Node


class Forgetful:
    """A driver that takes limits and keeps `most` of them."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.asked: list[tuple[str, int | None]] = []

    def set(self, uuid: str, group: Path, hard: int | None) -> None:
        self.asked.append((uuid, hard))

    def get(self, uuid: str, group: Path) -> int | None:
        kept = self.asked[-1][1] if self.asked else None
        return kept if kept is None or self.most is None else min(kept, self.most)


@pytest.fixture
def group(tmp_path: Path) -> str:
    made = tmp_path / "group"
    made.mkdir()
    (made / "cgroup.controllers").touch()
    return str(made)


def node_with(tmp_path: Path, driver: Forgetful) -> Node:
    node = make_node(tmp_path)
    node.backends = Backends(parts=CgroupMemory(driver))
    return node


def test_a_limit_that_did_not_take_keeps_the_claim_from_being_there(tmp_path: Path, group: str) -> None:
    driver = Forgetful(most=GIB)
    node = node_with(tmp_path, driver)
    with pytest.raises(Unavailable) as refusal:
        node.put("a", body(memory=8 * GIB) | {"group": group})
    assert refusal.value.code == "not_enforced"
    assert refusal.value.evidence[CARD]["wanted"]["memory"] == 8 * GIB
    assert refusal.value.evidence[CARD]["found"]["memory"] == GIB
    assert not (node.root / "a").exists()
    assert driver.asked[-1] == (CARD, None), "nothing is left behind"


def test_a_changed_limit_counts_only_when_it_is_in_force(tmp_path: Path, group: str) -> None:
    driver = Forgetful(most=8 * GIB)
    node = node_with(tmp_path, driver)
    node.put("a", body(memory=4 * GIB) | {"group": group})
    change = {"devices": [{"uuid": CARD, "memory": 16 * GIB}]}
    with pytest.raises(Unavailable):
        node.change("a", change)
    with pytest.raises(Unavailable):
        node.change("a", change)  # the same again is no way around it
    driver.most = None
    assert node.change("a", change).parts[0].memory == 16 * GIB


def test_a_config_that_somebody_has_changed_is_written_again_or_told(tmp_path: Path) -> None:
    from vcuda.node.layout import ConfigFile

    node = make_node(tmp_path)
    claim, _ = node.put("a", body())
    config = ConfigFile(node.root / "a" / "config", writable=True)
    record = config.read(0)
    (node.root / "a" / "config").rename(node.root / "a" / "config-old")  # programs would read another file
    config.close()
    with pytest.raises(Unavailable):
        node.bring(claim)
    (node.root / "a" / "config-old").rename(node.root / "a" / "config")
    assert node.bring(claim) == claim
    assert record.memory_limit == 8 * GIB


@pytest.mark.parametrize("contained", [False, True])
def test_a_setting_is_obeyed_and_said(contained: bool) -> None:
    chosen = choose("interposer", [CARD], contained=contained)
    assert chosen.told() == {
        "limits": "interposer",
        "limits_reason": "limits_by_library_in_pods" if contained else "limits_by_setting",
        "whole": "interposer",
        "whole_reason": "whole_other_cards",
    }
    assert choose("exclusive", [CARD, "another"], contained=False).whole_reason == "whole_by_setting"
