"""What processes take of a card beside what they asked for, from two ledgers and the driver's list between them."""

from __future__ import annotations

from vcuda.node.layout import CLASSES, OVERHEAD_PAGE, Slot, SlotDevice
from vcuda.node.overheads import Overheads, pages_of

MIB = 1 << 20
CONTEXT = CLASSES.index("context")


def slot(pid: int, linear: int, *, imported: int = 0, contexts: int = 1, alive: bool = True) -> Slot:
    held = [0] * len(CLASSES)
    held[0], held[CONTEXT] = linear, 512 * MIB
    device = SlotDevice(
        bytes_by_class=tuple(held),
        inflight_since_ns=0,
        inflight_ns=0,
        last_launch_ns=0,
        outstanding_ns=0,
        unmeasured=0,
        waiting=0,
        contexts=contexts,
        imported_bytes=imported,
    )
    return Slot(index=pid % 10, alive=alive, epoch=pid, pid=pid, started_ns=0, devices=(device,))


def told(overheads: Overheads, used: int | None, before: Slot, now: Slot) -> int | None:
    """MiB."""
    found = [pages for _, pages in overheads.measure(0, {now.pid: used}, [before], [now])]
    return found[0] * OVERHEAD_PAGE // MIB if found else None


def test_a_process_is_told_what_it_takes_in_coarse_steps() -> None:
    assert pages_of(0) * OVERHEAD_PAGE == 16 * MIB
    assert told(Overheads(), 1256 * MIB, slot(7, 1000 * MIB), slot(7, 1000 * MIB)) == 272
    assert told(Overheads(), 1258 * MIB, slot(7, 1000 * MIB), slot(7, 1000 * MIB)) == 272  # a small module


def test_memory_on_its_way_is_not_taken_for_overhead() -> None:
    assert told(Overheads(), 1256 * MIB, slot(7, 0), slot(7, 1000 * MIB)) == 272  # allocated in between
    assert told(Overheads(), 1256 * MIB, slot(7, 1000 * MIB), slot(7, 0)) == 272  # freed in between


def test_a_ledger_that_is_ahead_for_a_moment_does_not_make_the_overhead_smaller() -> None:
    overheads = Overheads()
    assert told(overheads, 256 * MIB, slot(7, 0), slot(7, 0)) == 272
    assert told(overheads, 256 * MIB, slot(7, 0), slot(7, 200 * MIB)) == 272
    for _ in range(10):
        last = told(overheads, 100 * MIB, slot(7, 0), slot(7, 0))
    assert last == 112


def test_what_goes_around_the_library_is_no_overhead() -> None:
    assert told(Overheads(), 20 << 30, slot(7, 0), slot(7, 0)) == 1040


def test_nothing_is_told_where_nothing_is_known() -> None:
    assert told(Overheads(), None, slot(7, 0), slot(7, 0)) is None
    assert told(Overheads(), 256 * MIB, slot(8, 0), slot(7, 0)) is None  # a new process in this slot
    assert told(Overheads(), 256 * MIB, slot(7, 0), slot(7, 0, alive=False)) is None
    assert told(Overheads(), 256 * MIB, slot(7, 0), slot(7, 0, contexts=0)) is None
    assert (
        told(Overheads(), 256 * MIB, slot(7, 0), slot(7, 0, imported=MIB)) is None
    )  # whose the driver counts is not known


def test_a_bare_context_is_learned_once_it_is_complete_and_the_smallest_counts() -> None:
    overheads = Overheads()
    for used, linear, learned in (
        (100, 0, None),  # still being made
        (256, 0, None),
        (256, 0, 256),
        (300, 0, 256),
        (300, 0, 256),  # with a module
        (1200, 1000, 256),
        (1200, 1000, 256),
    ):
        told(overheads, used * MIB, slot(7, linear * MIB), slot(7, linear * MIB))
        assert overheads.context == (None if learned is None else learned * MIB)
