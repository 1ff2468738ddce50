"""Reading a ledger: who lives, what is held, who was busy."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vcuda.node.books import Books, Page, activity, busy_until
from vcuda.node.layout import DeviceRecord, SlotDevice, create_files
from vcuda.node.mapped import Words

MS = 1_000_000
SLOTS_AT, SLOT, SLOT_DEVICE = 12_288, 2_176, 128  # vcuda/ABI.md
UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"


def process(*, since: int = 0, finished: int = 0, last: int = 0, outstanding: int = 0) -> SlotDevice:
    return SlotDevice(
        bytes_by_class=(0,) * 8,
        inflight_since_ns=since,
        inflight_ns=finished,
        last_launch_ns=last,
        outstanding_ns=outstanding,
        unmeasured=0,
        waiting=0,
        contexts=1,
    )


def test_work_in_flight_counts_up_to_now() -> None:
    assert busy_until(process(since=100 * MS, finished=7 * MS, last=110 * MS), 120 * MS, 0) == 27 * MS


def test_a_process_that_never_asks_for_its_results_is_not_busy_for_ever() -> None:
    silent = process(since=100 * MS, last=100 * MS, outstanding=5 * MS)
    assert busy_until(silent, 10_000 * MS, 0) == 30 * MS  # 20 ms, and twice its 5 ms of work
    assert busy_until(silent, 10_000 * MS, 1) == 40 * MS  # beside a neighbour the work takes twice as long


def test_idle_processes_have_their_finished_time_only() -> None:
    assert busy_until(process(finished=9 * MS), 500 * MS, 0) == 9 * MS


def make_books(folder: Path, *, cards: int = 1) -> Books:
    record = DeviceRecord(uuid=UUID, memory_limit=1 << 30, guarantee=300, ceiling=500, share=300)
    create_files(folder, tag=b"t" * 16, records=[record] * cards)
    return Books.open(folder, cards)


def take_slot(words: Words, index: int, *, held_bytes: int, waiting: int = 0, busy_ns: int = 0) -> None:
    """What the library writes when a process takes a slot and allocates."""
    at = SLOTS_AT + index * SLOT
    words.set("Q", at, index + 1)
    words.set("I", at + 8, os.getpid())
    words.set("Q", at + 128, held_bytes)
    words.set("Q", at + 128 + 72, busy_ns)
    words.set("I", at + 128 + 100, waiting)
    words.set("I", 120, max(words.get("I", 120), index + 1))
    words.set("Q", 4096, words.get("Q", 4096) + held_bytes)


def in_child_holding(lock: Path, index: int, check: Callable[[], None]) -> None:
    """Run `check` while a process of its own holds the slot's record lock."""
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open(lock, os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, index)
        os.write(ready_write, b".")
        os.close(done_write)
        os.read(done_read, 1)
        os._exit(0)
    os.close(done_read)
    os.read(ready_read, 1)
    try:
        check()
    finally:
        os.close(done_write)
        os.waitpid(child, 0)
        os.close(ready_read)
        os.close(ready_write)


def test_the_bytes_of_dead_processes_are_not_held(tmp_path: Path) -> None:
    books, words = make_books(tmp_path), Words(tmp_path / "ledger", writable=True)
    take_slot(words, 0, held_bytes=300)
    take_slot(words, 1, held_bytes=500, waiting=2)

    def check() -> None:
        page = books.read(1).pages[0]
        assert page.device.reserved_bytes == 800
        assert page.held_bytes == 500
        assert page.waiting == 2
        assert set(page.busy_ns) == {2}

    in_child_holding(tmp_path / "lock", 1, check)
    after = books.read(2)
    assert after.pages[0].held_bytes == 0
    assert after.pages[0].waiting == 0
    assert after.processes == ()


def page_with(books: Books, busy: dict[int, int]) -> Page:
    device = books.ledger.device(0)
    return Page(device, 0, 0, False, 0, busy)


@pytest.mark.parametrize(("before", "after", "expected"), [(10, 60, 0.5), (60, 10, 0.0), (0, 500, 1.0)])
def test_activity_is_the_busy_part_of_the_period(tmp_path: Path, before: int, after: int, expected: float) -> None:
    books = make_books(tmp_path)
    found = activity(page_with(books, {1: before * MS}), page_with(books, {1: after * MS}), 100 * MS)
    assert found == {1: expected}


def test_a_new_process_is_measured_from_its_start(tmp_path: Path) -> None:
    books = make_books(tmp_path)
    assert activity(page_with(books, {}), page_with(books, {7: 30 * MS}), 100 * MS) == {7: 0.3}
