"""Who gets a place next, and what the others are told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from apps.cluster.drivers.local.placement import Grant
from apps.cluster.drivers.local.queue import Place, Waits, decide, turns
from apps.cluster.drivers.local.records import Record
from apps.cluster.specs import Card, Holder, RunState
from apps.core.share import GIB, GpuShare
from tests.unit.cluster.local.test_records import spec

EARLY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
RAM = 10 * GIB  # each run of these tests takes 4
CARD = Card("GPU-1", "here", 0, "H100", 79 * GIB, 80 * GIB)
THIRD = GpuShare(1, 8 * GIB, 300, 1000)


def record(
    uid: str,
    *,
    state: RunState = RunState.WAITING,
    minutes: int = 0,
    gpu: GpuShare | None = None,
    grants: tuple[Grant, ...] = (),
) -> Record:
    at = EARLY + timedelta(minutes=minutes)
    return Record(spec=spec(uid, gpu=gpu), accepted_at=at, state=state, since=at, grants=grants)


def test_the_oldest_that_waits_is_first() -> None:
    late, early, running = record("x", minutes=5), record("y"), record("z", state=RunState.READY, minutes=-5)
    assert [r.uid for r in turns([late, early, running])] == ["y", "x"]


def test_a_run_without_gpu_needs_no_card_and_no_agent() -> None:
    assert decide(record("a"), None, [], RAM) == Place()


def test_a_share_waits_for_the_agent_while_nobody_knows_the_cards() -> None:
    assert decide(record("a", gpu=THIRD), None, [], RAM) == Waits("agent_unavailable", {})


def test_a_promise_counts_before_there_is_a_claim() -> None:
    promised = record("b", state=RunState.PREPARING, gpu=THIRD, grants=(Grant("GPU-1", 8 * GIB, 800, 1000),))
    decision = decide(record("a", gpu=THIRD), [CARD], [promised], RAM)
    assert isinstance(decision, Waits)
    assert decision.evidence["room_permille"] == 200


def test_a_promise_and_its_claim_count_once() -> None:
    promised = record("b", state=RunState.READY, gpu=THIRD, grants=(Grant("GPU-1", 8 * GIB, 600, 1000),))
    seen = replace(CARD, holders=(Holder(promised.claim, 8 * GIB, 600, 1000),))
    assert isinstance(decide(record("a", gpu=THIRD), [seen], [promised], RAM), Place)


def test_a_claim_that_nobody_here_knows_takes_room_too() -> None:
    seen = replace(CARD, holders=(Holder("by-hand", GIB, 900, 900),))
    assert isinstance(decide(record("a", gpu=THIRD), [seen], [], RAM), Waits)


def test_ram_is_promised_once_and_waited_for() -> None:
    held = [record(uid, state=RunState.READY) for uid in ("b", "c")]
    decision = decide(record("a"), [], held, RAM)
    assert isinstance(decision, Waits)
    assert decision.reason == "waiting_machine"
    assert decision.evidence["room_bytes"] == 2 * GIB
    assert decide(record("a"), [], held[:1], RAM) == Place()


def test_more_ram_than_the_machine_has_never_fits() -> None:
    decision = decide(record("a"), [], [], GIB)
    assert isinstance(decision, Waits)
    assert decision.reason == "never_fits_machine"


def test_what_has_ended_holds_nothing() -> None:
    ended = [record(uid, state=RunState.EXITED) for uid in ("b", "c", "d")]
    assert decide(record("a"), [], ended, RAM) == Place()
