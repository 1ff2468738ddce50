"""Claims on a node: made, changed, adopted, refused, removed; ticks that lend and take back; seconds that sample."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.node.claimed import CARD, GIB, MS, SECOND_CARD, LibrarySide, body, look, make_node
from vcuda.node import describe, metrics
from vcuda.node.errors import Conflict, Invalid, Missing
from vcuda.node.layout import ConfigFile, LayoutError
from vcuda.node.mapped import Words
from vcuda.node.node import Node
from vcuda.node.nvml import Gauges, Look

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
HOLDER = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(lock, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make_node(tmp_path)


@contextmanager
def slot_held(claim: Path, slot: int = 0, *, marker: str = "") -> Iterator[int]:
    """Another process holds a slot of the claim, as the library does; its process id."""
    command = [sys.executable, "-c", HOLDER, str(claim / "lock"), str(slot)]
    env = os.environ | ({"TESSERA_CLAIM": marker} if marker else {})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as holder:
        assert holder.stdout is not None
        yield int(holder.stdout.readline())
        holder.communicate()


def shares(node: Node) -> dict[str, int]:
    return {held.claim: held.share for held in node.held()}


def sample(node: Node, subject: str) -> dict[str, object]:
    found = [s.as_json() for s in node.samples if s.subject == subject]
    assert len(found) == 1
    return found[0]


def test_the_same_claim_twice_is_one_claim(node: Node) -> None:
    _, first = node.put("a", body())
    _, second = node.put("a", body())
    assert (first, second, list(node.claims)) == (True, False, ["a"])


def test_the_same_name_with_other_numbers_is_refused(node: Node) -> None:
    node.put("a", body())
    with pytest.raises(Conflict) as refusal:
        node.put("a", body(compute=400))
    assert refusal.value.code == "claim_differs"


def test_a_card_is_never_promised_twice(node: Node) -> None:
    node.put("a", body(compute=700))
    with pytest.raises(Conflict) as refusal:
        node.put("b", body(compute=301))
    assert refusal.value.code == "no_room"
    node.put("b", body(compute=301, uuid=SECOND_CARD))
    assert not (node.root / "c").exists()


def test_limits_change_in_place_and_programs_see_them(node: Node) -> None:
    node.put("a", body())
    seen = ConfigFile(node.root / "a" / "config")
    before = seen.generation
    node.change("a", {"devices": [{"uuid": CARD, "memory": 4 * GIB, "compute": 200, "ceiling": 250}]})
    record = seen.read(0)
    assert (record.memory_limit, record.guarantee, record.ceiling, record.share) == (4 * GIB, 200, 250, 250)
    assert seen.generation > before


def test_a_change_that_does_not_fit_changes_nothing(node: Node) -> None:
    node.put("a", body(compute=300))
    node.put("b", body(compute=600))
    with pytest.raises(Conflict):
        node.change("a", {"devices": [{"uuid": CARD, "compute": 401, "ceiling": 401}]})
    assert ConfigFile(node.root / "a" / "config").read(0).guarantee == 300


def test_unknown_claims_are_missing_and_bad_names_are_refused(node: Node) -> None:
    with pytest.raises(Missing):
        node.change("nobody", body())
    with pytest.raises(Invalid):
        node.delete("../claims")
    node.delete("nobody")


def test_a_claim_in_use_is_not_removed_and_the_refusal_names_who(node: Node) -> None:
    node.put("a", body())
    LibrarySide(node.root / "a")
    with slot_held(node.root / "a"):
        with pytest.raises(Conflict) as refusal:
            node.delete("a")
        assert refusal.value.code == "claim_in_use"
        assert refusal.value.evidence["processes"][0]["seen_by"] == "library"
        assert (node.root / "a" / "ledger").exists()
    node.delete("a")
    assert not (node.root / "a").exists()


def test_a_program_around_the_library_keeps_its_claim_too(node: Node, tmp_path: Path) -> None:
    node.put("a", body())
    (tmp_path / "lock").touch()  # locks elsewhere mean nothing
    with slot_held(tmp_path, marker="a") as pid:
        node.tick({CARD: look(used={pid: GIB})}, 100 * MS)
        assert {user["pid"]: user["seen_by"] for user in node._users(node.claims["a"])} == {pid: "driver"}
    node.delete("a")


def test_a_new_agent_goes_on_with_the_claims_on_disk(node: Node, tmp_path: Path) -> None:
    node.put("a", body())
    node.put("b", body(uuid=SECOND_CARD, compute=1000))
    again = make_node(tmp_path)
    assert again.held() == node.held()
    assert again.claims["b"].claim == node.claims["b"].claim


def test_a_record_at_which_the_agent_was_killed_is_mended(node: Node, tmp_path: Path) -> None:
    node.put("a", body(compute=300, ceiling=500))
    words = Words(node.root / "a" / "config", writable=True)
    words.set("I", 256, words.get("I", 256) | 1)  # a write has begun
    words.set("I", 256 + 88, 600)  # and got as far as the guarantee
    with pytest.raises(LayoutError):
        ConfigFile(node.root / "a" / "config").read(0)
    again = make_node(tmp_path)
    record = ConfigFile(node.root / "a" / "config").read(0)
    assert (record.guarantee, record.ceiling, record.share) == (600, 600, 600)
    assert again.held()[0].part.compute == 600


def test_a_claim_of_another_layout_is_kept_unread_and_told(node: Node, tmp_path: Path) -> None:
    node.put("a", body())
    with (node.root / "a" / "ledger").open("r+b") as file:
        file.write(b"FOREIGN!")
    again = make_node(tmp_path)
    assert again.claims == {}
    assert "a" in describe.cards(again, NOW)["notes"][0]
    with pytest.raises(Conflict) as refusal:
        again.put("a", body())
    assert refusal.value.code == "claim_unreadable"
    assert again.held() == node.held(), "what it promises is not promised again"
    with slot_held(node.root / "a"), pytest.raises(Conflict) as refusal:
        again.delete("a")
    assert refusal.value.code == "claim_in_use"
    again.delete("a")
    assert again.put("a", body())[1]


def test_a_program_that_damages_its_own_books_harms_only_itself(node: Node) -> None:
    node.put("hostile", body(compute=300))
    node.put("outsider", body(compute=300))
    node.tick({CARD: look()}, 100 * MS)
    os.truncate(node.root / "hostile" / "ledger", 4096)
    for tick in (2, 3):
        node.tick({CARD: look()}, tick * 100 * MS)
    node.second({}, 300 * MS, NOW)
    assert {s.subject for s in node.samples if "run:" in s.subject} == {f"run:outsider:{CARD}"}
    assert "hostile" in describe.cards(node, NOW)["notes"][0]
    assert ConfigFile(node.root / "hostile" / "config").read(0).share == 300, "its loan has ended, its limit stands"
    with pytest.raises(Conflict) as refusal:
        node.put("greedy", body(compute=401))
    assert refusal.value.evidence["holders"] == ["hostile", "outsider"]


def test_nonsense_in_a_ledger_stops_nobody(node: Node) -> None:
    node.put("hostile", body(compute=300))
    node.put("outsider", body(compute=300))
    library = LibrarySide(node.root / "hostile")
    for tick in range(1, 21):
        for offset in (0, 16, 128, 136, 144, 184):
            library.overwrite(offset, (2**64 - 1) * (tick % 2))
        node.tick({CARD: look(percent=40, busy={1: 40}, at=tick)}, tick * 100 * MS)
        node.second({CARD: Gauges(memory_used=GIB)}, tick * 100 * MS, NOW)
    figures = [sample(node, f"run:hostile:{CARD}"), sample(node, f"run:outsider:{CARD}")]
    assert all(0 <= v < 2**63 for found in figures for v in found.values() if isinstance(v, int))
    assert figures[1]["memory_used"] == 0
    assert shares(node)["outsider"] >= 300


def test_idle_time_is_lent_and_taken_back_in_one_tick(node: Node) -> None:
    node.put("worker", body(compute=300))
    node.put("owner", body(compute=600))
    worker, owner = LibrarySide(node.root / "worker"), LibrarySide(node.root / "owner")
    with slot_held(node.root / "worker"), slot_held(node.root / "owner"):
        worker.wait(1)
        node.tick({CARD: look()}, 100 * MS)
        assert shares(node) == {"worker": 320, "owner": 640}, "unknown is never idle"
        node.tick({CARD: look()}, 200 * MS)
        assert shares(node) == {"worker": 980, "owner": 600}
        owner.wait(1)
        node.tick({CARD: look()}, 300 * MS)
        assert shares(node) == {"worker": 320, "owner": 640}


def test_a_clean_end_ends_all_loans_and_keeps_the_claims(node: Node, tmp_path: Path) -> None:
    node.put("worker", body(compute=300))
    node.tick({CARD: look()}, 100 * MS)
    assert shares(node)["worker"] == 1000
    node.close()
    assert shares(make_node(tmp_path)) == {"worker": 300}


def test_a_killed_agent_leaves_shares_as_they_were(node: Node, tmp_path: Path) -> None:
    node.put("worker", body(compute=300))
    node.tick({CARD: look()}, 100 * MS)
    assert shares(make_node(tmp_path)) == {"worker": 1000}


def test_a_second_is_sampled_from_driver_and_books(node: Node) -> None:
    node.put("a", body(compute=300, ceiling=300))
    library = LibrarySide(node.root / "a")
    with slot_held(node.root / "a", marker="a") as pid:
        library.allocate(2 * GIB)
        for tick in range(1, 11):
            library.charge(30 * MS)
            library.add(136, 5 * MS)  # throttled
            node.tick({CARD: look(percent=35, used={pid: 3 * GIB}, busy={pid: 31}, at=tick)}, tick * 100 * MS)
            if tick == 1:
                node.second({}, tick * 100 * MS, NOW)
        library.add(16, 7 * GIB)  # denied
        node.tick({CARD: look(percent=35, used={pid: 3 * GIB}, busy={pid: 31}, at=11)}, 1_100 * MS)
        node.second({CARD: Gauges(memory_used=4 * GIB, temperature=41, power=123)}, 1_100 * MS, NOW)
    told = sample(node, f"run:a:{CARD}")
    assert "bypass" in told, "a second of 1 GiB that no library has counted"
    del told["bypass"]
    assert told == {
        "subject": f"run:a:{CARD}",
        "at": "2026-05-04T03:02:01+00:00",
        "compute_used": 310,
        "compute_limit": 300,
        "memory_used": 2 * GIB,
        "memory_limit": 8 * GIB,
        "throttled_ms": 45,
        "denied_bytes": 7 * GIB,
        "uncounted_bytes": 1 * GIB,
        "borrowed": 10,
        "temperature": None,
        "power": None,
    }
    card = sample(node, f"card:{CARD}")
    assert (card["compute_used"], card["memory_used"], card["uncounted_bytes"]) == (350, 4 * GIB, 2 * GIB)
    assert (card["temperature"], card["power"]) == (41, 123)


def test_another_claims_processes_are_not_in_the_sample(node: Node) -> None:
    node.put("a", body(compute=300))
    node.put("outsider", body(compute=300))
    with slot_held(node.root / "outsider", marker="outsider") as pid:
        for tick in range(1, 4):
            node.tick({CARD: look(percent=60, used={pid: GIB}, busy={pid: 60}, at=tick)}, tick * 100 * MS)
        node.second({}, 300 * MS, NOW)
    assert sample(node, f"run:a:{CARD}")["compute_used"] == 0
    assert sample(node, f"run:a:{CARD}")["uncounted_bytes"] == 0
    assert sample(node, f"run:outsider:{CARD}")["compute_used"] == 600


def test_a_lost_card_has_no_figures_rather_than_zeros(node: Node) -> None:
    node.tick({CARD: Look(fault="gpu_lost"), SECOND_CARD: look()}, 100 * MS)
    node.tick({CARD: Look(fault="gpu_lost"), SECOND_CARD: look()}, 200 * MS)
    node.second({CARD: Gauges(), SECOND_CARD: Gauges(memory_used=0)}, 200 * MS, NOW)
    lost, sound = sample(node, f"card:{CARD}"), sample(node, f"card:{SECOND_CARD}")
    assert (lost["compute_used"], lost["memory_used"], lost["uncounted_bytes"]) == (None, None, None)
    assert (sound["compute_used"], sound["memory_used"]) == (0, 0)
    cards = {card["uuid"]: card for card in describe.cards(node, NOW)["cards"]}
    assert (cards[CARD]["healthy"], cards[CARD]["health_reason"]) == (False, "gpu_lost")
    assert cards[SECOND_CARD]["healthy"]


def test_a_claim_learns_what_was_measured_of_it(node: Node) -> None:
    node.put("a", body(compute=300, ceiling=300))
    with slot_held(node.root / "a", marker="a") as pid:
        for tick in (1, 2, 3):
            node.tick({CARD: look(percent=20, used={pid: GIB}, busy={pid: 20}, at=tick)}, tick * 100 * MS)
        node.second({}, 300 * MS, NOW)
    record = ConfigFile(node.root / "a" / "config").read(0)
    assert (record.busy, record.observed_bytes, record.observed_at_ns) == (200, GIB, 300 * MS)


def test_a_neighbour_without_the_library_is_told_to_the_claim(node: Node) -> None:
    node.put("a", body())
    node.tick({CARD: look(percent=50, used={1: GIB})}, 100 * MS)
    record = ConfigFile(node.root / "a" / "config").read(0)
    assert (record.others, record.phi_ppm) == (1, 2_000_000)


def test_charging_more_than_was_measured_lowers_the_multiplier(node: Node) -> None:
    node.put("a", body(compute=300, ceiling=300))
    library = LibrarySide(node.root / "a")
    with slot_held(node.root / "a", marker="a") as pid:
        for tick in range(1, 31):
            library.charge(30 * MS)
            node.tick({CARD: look(percent=20, used={pid: GIB}, busy={pid: 20}, at=tick)}, tick * 100 * MS)
    part = node.claims["a"].parts[CARD]
    assert 0.1 < part.m < 0.9


def test_a_queue_that_fills_is_no_error_of_the_books(node: Node) -> None:
    node.put("a", body(compute=300, ceiling=300))
    library = LibrarySide(node.root / "a")
    with slot_held(node.root / "a", marker="a") as pid:
        for tick in range(1, 11):
            library.charge(30 * MS)
            if tick == 3:
                library.charge(50 * MS)  # a burst: charged at once, and in the queue from then on
                library.queue(50 * MS)
            node.tick({CARD: look(percent=30, used={pid: GIB}, busy={pid: 30}, at=tick)}, tick * 100 * MS)
    assert node.claims["a"].parts[CARD].m == pytest.approx(1.0, abs=0.01)


def test_cards_show_what_is_allocatable_and_who_holds_it(node: Node) -> None:
    node.put("a", body(memory=8 * GIB, compute=300, ceiling=500))
    card = describe.cards(node, NOW)["cards"][0]
    assert 78 * GIB < card["memory"] < card["physical_memory"] - 512 * 1024**2
    assert card["claims"] == [{"uid": "a", "memory": 8 * GIB, "compute": 300, "ceiling": 500, "share": 300}]


def test_metrics_are_prometheus_text_without_unknown_values(node: Node) -> None:
    node.put("a", body())
    LibrarySide(node.root / "a").add(24, 3)  # refused allocations
    node.tick({CARD: look(percent=10), SECOND_CARD: Look(fault="gpu_lost")}, 100 * MS)
    node.tick({CARD: look(percent=10), SECOND_CARD: Look(fault="gpu_lost")}, 200 * MS)
    node.second({CARD: Gauges(memory_used=GIB)}, 200 * MS, NOW)
    text = metrics.text(node).decode()
    assert f'tessera_card_compute_used_ratio{{card="{CARD}"}} 0.1' in text
    assert f'tessera_card_compute_used_ratio{{card="{SECOND_CARD}"}}' not in text
    assert f'tessera_claim_memory_denied_total{{card="{CARD}",claim="a"}} 3.0' in text
    assert f'tessera_card_healthy{{card="{SECOND_CARD}"}} 0.0' in text
