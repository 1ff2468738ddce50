"""Child processes of the supervisor."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portal import leftovers
from portal.children import Child, Program, log_file
from portal.supervisor import CannotStart, Part, Supervisor

BOUND = 30  # seconds within which anything awaited must happen; not a claim about speed
PYTHON = [sys.executable, "-I", "-S", "-c"]
SLEEP = [*PYTHON, "import time; print('up', flush=True); time.sleep(1000)"]
# A parent and its child, as nginx's master and worker: the child does not end with the parent.
FAMILY = [*PYTHON, "import os, time\nif os.fork(): print(os.getpid(), flush=True)\ntime.sleep(1000)"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


async def until(true: object) -> None:
    assert callable(true)
    async with asyncio.timeout(BOUND):
        while not true():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)


def start(tmp_path: Path, argv: list[str], **how: object) -> tuple[Child, list[str]]:
    lines: list[str] = []
    program = Program("thing", argv, **how)  # type: ignore[arg-type]
    return Child(program, log_file(tmp_path, "thing"), lines.append), lines


async def test_output_goes_to_the_log_and_the_end_is_an_event(tmp_path: Path) -> None:
    child, lines = start(
        tmp_path, [*PYTHON, "import sys; print('one'); print('两', file=sys.stderr); print('end', end=''); sys.exit(3)"]
    )
    assert await asyncio.wait_for(child.ended, BOUND) == 3
    assert sorted(lines) == sorted(["one", "两", "end"])
    assert sorted((tmp_path / "thing.log").read_text().split()) == sorted(lines)


async def test_much_output_is_not_lost_at_the_end(tmp_path: Path) -> None:
    child, lines = start(tmp_path, [*PYTHON, "for n in range(20000): print(n)"])
    await asyncio.wait_for(child.ended, BOUND)
    assert lines == [str(n) for n in range(20000)]


async def test_a_signal_is_told_from_a_status(tmp_path: Path) -> None:
    child, lines = start(tmp_path, SLEEP)
    await until(lambda: lines)
    os.kill(child.pid, signal.SIGKILL)
    assert await asyncio.wait_for(child.ended, BOUND) == -signal.SIGKILL


async def test_the_children_of_a_killed_child_do_not_stay(tmp_path: Path) -> None:
    child, lines = start(tmp_path, FAMILY)
    await until(lambda: lines and len(members(child.pid)) == 2)
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.wait_for(child.ended, BOUND)
    await until(lambda: not members(child.pid))


SAY_WHO = """
import ctypes, os
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))
print(os.getuid(), os.getgid(), number.value)
"""


async def test_an_account_is_taken_on_and_the_last_signal_with_it(tmp_path: Path) -> None:
    account = 299_999 if os.geteuid() == 0 else None  # only root can give a process another account
    python = ["/usr/bin/python3", "-I", "-c", SAY_WHO]  # one that every account can reach
    child, lines = start(tmp_path, python, account=account, last_signal=signal.SIGTERM)
    await asyncio.wait_for(child.ended, BOUND)
    who = (account, account) if account is not None else (os.getuid(), os.getgid())
    assert lines == [f"{who[0]} {who[1]} {int(signal.SIGTERM)}"]


def test_nothing_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path
from portal.children import Child, Program, log_file
async def main():
    child = Child(Program("thing", {SLEEP!r}), log_file(Path({str(tmp_path)!r}), "thing"), lambda line: print(child.pid, flush=True))
    await child.ended
asyncio.run(main())
"""
    supervisor = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    handle = os.pidfd_open(pid)
    supervisor.kill()
    supervisor.wait(BOUND)
    assert select.select([handle], [], [], BOUND)[0], "the child lives on"
    os.close(handle)
    supervisor.stdout.close()


async def test_what_an_earlier_run_left_is_found_by_its_group_and_nobody_else_is_touched(tmp_path: Path) -> None:
    register = tmp_path / "groups.json"
    child, lines = start(tmp_path, FAMILY)
    await until(lambda: lines and len(members(child.pid)) == 2)
    leftovers.remember(register, [child.pid])
    worker = next(pid for pid in members(child.pid) if pid != child.pid)
    known = json.loads(register.read_text())
    for wrong in ({"began": 1}, {"program": "/bin/other"}):
        register.write_text(json.dumps({**known, "groups": [{**known["groups"][0], **wrong}]}))
        assert leftovers.end(register) == 0
    register.write_text(json.dumps({**known, "boot": "another"}))
    assert leftovers.end(register) == 0
    assert alive(worker)
    register.write_text(json.dumps(known))
    assert leftovers.end(register) == 2
    await asyncio.wait_for(child.ended, BOUND)
    await until(lambda: not members(child.pid))
    assert leftovers.end(register) == 0


def test_a_missing_or_broken_register_is_no_leftover(tmp_path: Path) -> None:
    assert leftovers.end(tmp_path / "none.json") == 0
    (tmp_path / "broken.json").write_text("{")
    assert leftovers.end(tmp_path / "broken.json") == 0


# --- The supervisor --------------------------------------------------------------------------------------------------------


async def at_once() -> None:
    return


def part(name: str, argv: list[str], **fields: object) -> Part:
    return Part(Program(name, argv), "blue", **{"ready": at_once, **fields})  # type: ignore[arg-type]


def supervisor(tmp_path: Path, *parts: Part) -> Supervisor:
    return Supervisor(list(parts), logs=tmp_path / "logs", register=tmp_path / "groups.json")


async def test_a_killed_part_is_back_at_once_and_says_so(tmp_path: Path) -> None:
    back = asyncio.Event()
    one = part("one", SLEEP, back=back.set)
    whole = supervisor(tmp_path, one)
    await whole.start()
    assert one.child is not None
    first = one.child.pid
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(back.wait(), BOUND)
    assert one.child.pid != first
    assert one.child.alive
    await whole.stop(["one"])
    assert not one.child.alive


async def test_a_part_that_keeps_dying_is_started_with_growing_pauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = part("one", SLEEP)
    whole = supervisor(tmp_path, one)
    await whole.start()
    said = ""

    def told(words: str) -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return words in said

    for words in ("started again", "again in 0.5 s", "again in 1.0 s"):
        assert one.child is not None
        child = one.child
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda words=words: told(words))
        await until(lambda child=child: one.child is not child)
    await whole.stop(["one"])


async def test_a_part_that_does_not_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    whole = supervisor(
        tmp_path, part("bad", [*PYTHON, "raise SystemExit('no such table')"], ready=never), part("good", SLEEP)
    )
    with pytest.raises(CannotStart, match=r"bad ended at once \(exit status 1\)(.|\n)*no such table"):
        await whole.start()
    await whole.stop(["bad", "good"])


async def never() -> None:
    raise OSError("not yet")


async def test_stopping_keeps_the_order_and_does_not_start_anything_again(tmp_path: Path) -> None:
    order = tmp_path / "order"
    script = (
        "import signal, sys, time\n"
        f"def end(*_): open({str(order)!r}, 'a').write(sys.argv[1]); sys.exit()\n"
        "signal.signal(15, end)\n"
        "print('up', flush=True)\n"
        "time.sleep(1000)"
    )
    parts = [part(name, [*PYTHON, script, name]) for name in "abc"]
    whole = supervisor(tmp_path, *parts)
    await whole.start()
    await until(lambda: all(one.tail for one in parts))
    await whole.stop(["b", "a", "c"])
    assert order.read_text() == "bac"


async def test_in_a_hurry_nobody_is_waited_for(tmp_path: Path) -> None:
    stubborn = part(
        "stubborn",
        [*PYTHON, "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(1000)"],
    )
    whole = supervisor(tmp_path, stubborn)
    await whole.start()
    await until(lambda: stubborn.tail)
    stopping = asyncio.create_task(whole.stop(["stubborn"]))
    await asyncio.sleep(0)
    whole.hurry.set()
    await asyncio.wait_for(stopping, BOUND)
    assert stubborn.child is not None
    assert await stubborn.child.ended == -signal.SIGKILL
