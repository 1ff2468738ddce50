"""The queue before SQLite's one writer: order among threads, fairness among processes, and what ends a wait."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from portal.sqlite.turn import Turn

LONG = 60.0  # s; when a test gives up


@pytest.fixture
def turn(tmp_path: Path) -> Turn:
    return Turn(str(tmp_path / "database"))


def other(folder: Path, program: str) -> subprocess.Popen[str]:
    """Another process, with `turn` for the same database."""
    text = f"import sys\nfrom portal.sqlite.turn import Turn\nturn = Turn({str(folder / 'database')!r})\n{program}"
    return subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


HOLDER = "turn.take(60); print('mine', flush=True); sys.stdin.readline(); turn.give()"


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_threads_have_their_turn_in_the_order_in_which_they_came(turn: Turn) -> None:
    order: list[int] = []

    def write(number: int) -> None:
        assert turn.take(LONG)
        order.append(number)
        turn.give()

    assert turn.take(LONG)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        while len(turn._waiting) < count:
            os.sched_yield()
    turn.give()
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_a_turn_that_does_not_come_is_given_up_and_not_handed_over_later(turn: Turn) -> None:
    assert turn.take(LONG)
    gave_up: list[bool] = []
    waiter = threading.Thread(target=lambda: gave_up.append(not turn.take(0.05)))
    waiter.start()
    waiter.join()
    assert gave_up == [True]
    turn.give()
    assert turn.take(0)
    turn.give()


def test_processes_wait_for_each_other(turn: Turn, tmp_path: Path) -> None:
    holder = other(tmp_path, HOLDER)
    assert said(holder) == "mine"
    assert not turn.take(0.05)
    holder.communicate("\n")
    assert turn.take(LONG)
    turn.give()


def test_the_turn_of_a_killed_process_is_free(turn: Turn, tmp_path: Path) -> None:
    holder = other(tmp_path, HOLDER)
    assert said(holder) == "mine"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert turn.take(LONG)
    turn.give()


def test_a_process_that_always_writes_lets_others_write(turn: Turn, tmp_path: Path) -> None:
    """Without the second lock it would take its own turn again before the other has looked: thousands of times for each of ours."""
    busy = other(
        tmp_path,
        "import threading\n"
        "over, turns = threading.Event(), 0\n"
        "threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()\n"
        "print('begun', flush=True)\n"
        "while not over.is_set():\n"
        "    turn.take(60); sum(range(20_000)); turn.give(); turns += 1\n"  # about a millisecond
        "print(turns)",
    )
    assert said(busy) == "begun"
    for _ in range(100):
        assert turn.take(LONG)
        turn.give()
    theirs = int(busy.communicate("\n")[0])
    assert theirs < 100 * 10, f"{theirs} of theirs for 100 of ours"


def test_a_forked_child_does_not_share_its_parents_turn(turn: Turn) -> None:
    assert turn.take(LONG)
    child = os.fork()
    if child == 0:
        copy = Turn(str(turn._path).removesuffix("-turn"))
        turn._files.take(0.0)
        os._exit(0 if not copy.take(0.0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    turn.give()


# Each takes, and tells who wrote. The worker's first look comes while the other has its turn.
WORKER = (
    "turn = Turn(turn._path.parent.joinpath('database').as_posix(), behind=True)\n"
    "print('begun', flush=True)\n"
    "print(turn.take(60), flush=True); turn.give()"
)


def test_work_waits_until_nobody_who_is_answered_wants_to_write(turn: Turn, tmp_path: Path) -> None:
    worker, lock = Turn(str(tmp_path / "database"), behind=True), threading.Lock()
    order: list[str] = []

    def write(who: str, mine: Turn) -> None:
        assert mine.take(LONG)
        with lock:
            order.append(who)
        mine.give()

    assert turn.take(LONG)
    answers = [threading.Thread(target=write, args=("answer", turn)) for _ in range(5)]
    work = threading.Thread(target=write, args=("work", worker))
    for count, thread in enumerate(answers, 1):
        thread.start()
        while len(turn._waiting) < count:
            os.sched_yield()
    worker._files.let_others_go = lambda _end, wait=worker._files.let_others_go: wait(float("inf"))  # type: ignore
    work.start()
    while not worker._interested:
        os.sched_yield()
    turn.give()
    for thread in (*answers, work):
        thread.join()
    assert order == ["answer"] * 5 + ["work"]


def test_work_waits_a_moment_only(turn: Turn, tmp_path: Path) -> None:
    """Somebody is interested all the time, as under a load that is too high."""
    turn._count(1)
    worker = other(tmp_path, WORKER)
    assert said(worker) == "begun"
    assert said(worker) == "True"
    worker.communicate()
    turn._count(-1)
