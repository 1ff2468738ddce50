"""The Python mirror of a claim's files: golden bytes shared with the C tests, live updates, foreign files, locks."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from vcuda.node.layout import (
    CLASSES,
    COMPUTE_LIMITED,
    CONFIG_SIZE,
    LEDGER_SIZE,
    ConfigFile,
    DeviceRecord,
    LayoutError,
    LedgerFile,
    LockFile,
    create_files,
)

GOLDEN = Path(__file__).parents[3] / "vcuda" / "lib" / "tests" / "unit" / "golden"
TAG = bytes(range(1, 17))
FIRST = DeviceRecord(
    uuid="GPU-00112233-4455-6677-8899-aabbccddeeff",
    flags=COMPUTE_LIMITED,
    memory_limit=0x0102030405060708,
    overhead_bytes=0x1112131415161718,
    observed_bytes=0x2122232425262728,
    observed_at_ns=0x3132333435363738,
    guarantee=301,
    ceiling=602,
    share=403,
    others=5,
    phi_ppm=1_250_000,
    m_ppm=875_000,
    priority=-7,
    busy=299,
)
SECOND = DeviceRecord(uuid="GPU-2", memory_limit=8 << 30, guarantee=100, ceiling=1000, share=100)


def lines(data: bytes) -> str:
    """The file as the golden text: one line per 16 bytes that are not all zero."""
    rows = ((at, data[at : at + 16]) for at in range(0, len(data), 16))
    return "".join(f"{at:08x} {row.hex()}\n" for at, row in rows if any(row))


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    create_files(tmp_path, tag=TAG, records=[FIRST, SECOND])
    return tmp_path


def test_config_has_the_golden_bytes(claim: Path) -> None:
    assert lines((claim / "config").read_bytes()) == (GOLDEN / "config.txt").read_text()


def test_new_ledger_has_the_golden_bytes(claim: Path) -> None:
    data = (claim / "ledger").read_bytes()
    assert len(data) == LEDGER_SIZE
    assert lines(data) == (GOLDEN / "ledger-empty.txt").read_text()


def test_ledger_filled_by_the_c_test_reads_back_field_by_field(tmp_path: Path) -> None:
    data = bytearray(LEDGER_SIZE)
    for line in (GOLDEN / "ledger-filled.txt").read_text().splitlines():
        at, row = line.split()
        data[int(at, 16) : int(at, 16) + 16] = bytes.fromhex(row)
    (tmp_path / "ledger").write_bytes(data)
    ledger = LedgerFile(tmp_path / "ledger")
    assert (ledger.tag, ledger.refused_count, ledger.reclaimed_slots) == (TAG, 1001, 1002)
    device = ledger.device(1)
    values = [getattr(device, name) for name in device.__slots__]
    assert values == list(range(2001, 2023))
    assert not any(getattr(ledger.device(0), name) for name in device.__slots__)
    (slot,) = ledger.slots(frozenset({3}))
    assert (slot.index, slot.alive, slot.epoch, slot.pid, slot.started_ns) == (3, True, 3001, 3002, 3005)
    process = slot.devices[2]
    assert process.bytes_by_class == tuple(range(4001, 4001 + len(CLASSES)))
    assert [getattr(process, name) for name in process.__slots__[1:]] == list(range(4009, 4018))
    assert process.total_bytes == sum(range(4001, 4009))


def test_files_are_not_replaced_by_a_second_preparation(claim: Path) -> None:
    before = {name: (claim / name).stat().st_ino for name in ("config", "ledger", "lock", "log")}
    create_files(claim, tag=TAG, records=[SECOND])
    assert {name: (claim / name).stat().st_ino for name in before} == before
    assert ConfigFile(claim / "config").records() == [FIRST, SECOND]
    assert sorted(path.name for path in claim.iterdir()) == ["config", "ledger", "lock", "log"]


def test_a_written_record_reads_back_and_raises_the_generation(claim: Path) -> None:
    writer, reader = ConfigFile(claim / "config", writable=True), ConfigFile(claim / "config")
    changed = replace(SECOND, share=999, priority=-1, m_ppm=123)
    writer.write(1, changed)
    writer.beat(77)
    assert reader.read(1) == changed
    assert reader.read(0) == FIRST
    assert (reader.generation, reader.agent_beat_ns, reader.tag) == (2, 77, TAG)


def test_a_reader_never_sees_half_a_record(claim: Path) -> None:
    writer, reader = ConfigFile(claim / "config", writable=True), ConfigFile(claim / "config")
    done = threading.Event()

    def write() -> None:
        for value in range(2000):
            writer.write(
                1, replace(SECOND, guarantee=value, ceiling=value, share=value, memory_limit=value, busy=value)
            )
        done.set()

    writer.write(1, replace(SECOND, guarantee=0, ceiling=0, share=0, memory_limit=0, busy=0))
    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        seen = reader.read(1)
        assert len({seen.guarantee, seen.ceiling, seen.share, seen.memory_limit, seen.busy}) == 1
    thread.join()
    assert reader.read(1).share == 1999


def test_a_record_left_half_written_is_refused_and_healed_by_the_next_write(claim: Path) -> None:
    writer = ConfigFile(claim / "config", writable=True)
    with (claim / "config").open("r+b") as file:
        file.seek(256)
        file.write(struct.pack("<I", 3))
    with pytest.raises(LayoutError, match="half written"):
        writer.read(0)
    writer.write(0, FIRST)
    assert writer.read(0) == FIRST


@pytest.mark.parametrize("name", ["config", "ledger"])
@pytest.mark.parametrize(
    ("at", "data"),
    [(0, b"NOTACLAIM"), (8, struct.pack("<I", 0)), (12, struct.pack("<I", 2))],
    ids=["magic", "too old", "too new"],
)
def test_a_foreign_file_is_refused(claim: Path, name: str, at: int, data: bytes) -> None:
    with (claim / name).open("r+b") as file:
        file.seek(at)
        file.write(data)
    kind = ConfigFile if name == "config" else LedgerFile
    with pytest.raises(LayoutError, match=name):
        kind(claim / name)


def test_a_newer_file_that_allows_older_readers_is_read(claim: Path) -> None:
    with (claim / "config").open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("<II", 2, 1))
    assert ConfigFile(claim / "config").records() == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (20, struct.pack("<I", 256)),
        (28, struct.pack("<I", 128)),
        (32, struct.pack("<I", 100_000)),
        (48, struct.pack("<Q", LEDGER_SIZE)),
        (56, struct.pack("<Q", 2**63)),
    ],
    ids=["small cards", "small slots", "many slots", "cards behind the end", "slots behind the end"],
)
def test_a_ledger_whose_header_leads_outside_is_refused(claim: Path, at: int, data: bytes) -> None:
    with (claim / "ledger").open("r+b") as file:
        file.seek(at)
        file.write(data)
    with pytest.raises(LayoutError, match="do not fit"):
        LedgerFile(claim / "ledger")


def test_a_ledger_with_larger_records_is_read_by_the_sizes_in_its_header(claim: Path) -> None:
    with (claim / "ledger").open("r+b") as file:
        file.seek(20)
        file.write(struct.pack("<I", 512 + 64))
        file.seek(56)
        file.write(struct.pack("<Q", 4096 + 16 * (512 + 64)))
        file.seek(4096 + 576)
        file.write(struct.pack("<Q", 4711))
    assert LedgerFile(claim / "ledger").device(1).reserved_bytes == 4711


@pytest.mark.parametrize("size", [0, 100, 4096, CONFIG_SIZE - 1])
def test_a_short_file_is_refused(claim: Path, size: int) -> None:
    os.truncate(claim / "config", size)
    with pytest.raises(LayoutError):
        ConfigFile(claim / "config")


def test_bad_arguments_are_refused(claim: Path) -> None:
    config = ConfigFile(claim / "config", writable=True)
    with pytest.raises(IndexError, match="2 cards"):
        config.read(2)
    with pytest.raises(ValueError, match="UUID"):
        config.write(0, replace(FIRST, uuid="G" * 48))
    with pytest.raises(ValueError, match="16 bytes"):
        ConfigFile.create(claim / "other", tag=b"short", records=[])
    with pytest.raises(ValueError, match="at most 16"):
        ConfigFile.create(claim / "other", tag=TAG, records=[SECOND] * 17)


def test_only_slots_with_a_living_owner_are_held(claim: Path) -> None:
    lock = LockFile(claim / "lock")
    assert lock.held() == frozenset()
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open(claim / "lock", os.O_RDWR)
        for slot in (0, 7, 8, 511, 512):
            fcntl.lockf(fd, fcntl.LOCK_EX, 1, slot)
        os.write(told, b"x")
        signal.pause()
    try:
        assert os.read(ready, 1) == b"x"
        assert lock.held() == {0, 7, 8, 511}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert lock.held() == frozenset()
