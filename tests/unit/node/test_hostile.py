"""What a program does to its own claim's files harms nobody: not the agent, not the machine's disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.node.claimed import CARD, GIB, MS, body, look, make_node
from vcuda.node.books import Books
from vcuda.node.layout import LEDGER_SIZE, DeviceRecord, LayoutError, create_files

CUTTER = f"""
import os, sys
ledger = os.open(sys.argv[1], os.O_RDWR)
head = os.pread(ledger, 65536, 0)
print("begun", flush=True)
while True:
    os.ftruncate(ledger, 0)
    os.ftruncate(ledger, {LEDGER_SIZE})
    os.pwrite(ledger, head, 0)
"""
READER = """
import sys, time
from pathlib import Path
from vcuda.node.books import Books
from vcuda.node.layout import LayoutError
whole = cut = 0
books, end = None, time.monotonic() + 60
while min(whole, cut) < 2000 and time.monotonic() < end:
    try:
        books = books or Books.open(Path(sys.argv[1]), 1)
        books.read(1)
        whole += 1
    except LayoutError:
        cut += 1
print(whole, cut)
"""


@contextmanager
def cut_off_again_and_again(ledger: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", CUTTER, ledger], stdout=subprocess.PIPE) as cutter:
        assert cutter.stdout is not None
        cutter.stdout.readline()
        try:
            yield
        finally:
            cutter.kill()


def test_a_ledger_that_is_cut_off_while_it_is_read_is_an_error_and_not_the_readers_end(tmp_path: Path) -> None:
    record = DeviceRecord(uuid=CARD, memory_limit=GIB, guarantee=300, ceiling=500, share=300)
    create_files(tmp_path, tag=b"t" * 16, records=[record])
    ledger = (tmp_path / "ledger").open("r+b")
    ledger.seek(120)
    ledger.write((40).to_bytes(4, "little"))  # slots used: more to read, more moments to be cut off in
    ledger.close()
    with cut_off_again_and_again(tmp_path / "ledger"):
        reader = subprocess.run([sys.executable, "-c", READER, tmp_path], stdout=subprocess.PIPE, check=False)
    assert reader.returncode == 0, "a negative code is the signal that ended it"
    whole, cut = map(int, reader.stdout.split())
    assert whole
    assert cut


def test_a_claim_whose_ledger_is_cut_off_at_any_moment_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.put("hostile", body(compute=300))
    node.put("outsider", body(compute=300))
    with cut_off_again_and_again(node.root / "hostile" / "ledger"):
        for tick in range(1, 2000):
            node.tick({CARD: look()}, tick * 100 * MS)
            if "hostile" in node.unreadable:
                break
    assert "hostile" in node.unreadable
    assert set(node.claims) == {"outsider"}
    node.delete("hostile")
    assert "hostile" not in node.unreadable


@pytest.mark.parametrize("name", ["ledger", "lock", "log"])
def test_what_is_written_past_the_end_of_a_file_is_taken_away(tmp_path: Path, name: str) -> None:
    record = DeviceRecord(uuid=CARD, memory_limit=GIB, guarantee=300, ceiling=500, share=300)
    create_files(tmp_path, tag=b"t" * 16, records=[record])
    books = Books.open(tmp_path, 1)
    before = books.read(1)
    (tmp_path / "log").write_bytes(b"x" * 1000)
    os.truncate(tmp_path / name, 1 << 30)
    books.trim()
    assert (tmp_path / name).stat().st_size <= 1 << 26
    books.trim()
    assert books.read(1) == before
    assert (tmp_path / "log").read_bytes()[:1000] == b"x" * 1000


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    record = DeviceRecord(uuid=CARD, memory_limit=GIB, guarantee=300, ceiling=500, share=300)
    create_files(tmp_path, tag=b"t" * 16, records=[record])
    os.truncate(tmp_path / "ledger", 100)
    with pytest.raises(LayoutError):
        Books.open(tmp_path, 1)
