"""Library and agent of neighbouring releases: the files of a claim may be a version older or newer than the reader.

The next version is made here by the rules of vcuda/ABI.md: larger headers and records, tables elsewhere, new fields behind the old ones.
"""

# ruff: noqa: PT009, PT027 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import struct
import unittest
from dataclasses import dataclass
from pathlib import Path

from harness import GIB, MIB, OUT_OF_MEMORY, PROJECT, Claim, ShimTest

from vcuda.node.layout import ConfigFile, LayoutError, LedgerFile

GOLDEN = PROJECT / "vcuda/lib/tests/unit/golden"
NEW = b"\xee"  # what the next version keeps in its new fields, which nobody of this one may mind


@dataclass(frozen=True)
class Next:
    """Sizes of the version after this one, in bytes."""

    version: int = 2
    min_reader: int = 1
    header: int = 256 + 64
    record: int = 256 + 128
    ledger_header: int = 4096 + 4096
    device: int = 512 + 64
    slot: int = 2176 + 192
    cost: int = 128 + 64


def next_config(old: bytes, sizes: Next) -> bytes:
    (count,) = struct.unpack_from("<I", old, 24)
    header = bytearray(old[:256])
    struct.pack_into("<IIII", header, 8, sizes.version, sizes.min_reader, sizes.header, sizes.record)
    records = [old[256 + 256 * index :][:256].ljust(sizes.record, NEW) for index in range(count)]
    file = bytes(header).ljust(sizes.header, NEW) + b"".join(records)
    return file.ljust(sizes.header + 16 * sizes.record, b"\0")


def next_ledger(old: bytes, sizes: Next) -> tuple[bytes, int]:
    """Its header, and its length."""
    devices = sizes.ledger_header
    slots = devices + 16 * sizes.device
    costs = slots + 512 * sizes.slot
    length = costs + 16 * 4096 * sizes.cost
    header = bytearray(old[:4096])
    struct.pack_into("<III", header, 8, sizes.version, sizes.min_reader, sizes.ledger_header)
    for at, size in ((20, sizes.device), (28, sizes.slot), (36, sizes.cost)):
        struct.pack_into("<I", header, at, size)
    struct.pack_into("<QQQQ", header, 48, devices, slots, costs, length)
    return bytes(header).ljust(sizes.ledger_header, NEW), length


def rewrite(claim: Claim, sizes: Next) -> None:
    """Put files of the next version in the place of the claim's, before any program has opened them."""
    folder = claim.folder
    config = next_config((folder / "config").read_bytes(), sizes)
    header, length = next_ledger((folder / "ledger").read_bytes()[:4096], sizes)
    (folder / "config").write_bytes(config)
    with (folder / "ledger").open("r+b") as ledger:
        ledger.write(header)
        ledger.truncate(length)


class NewAgentOldLibrary(ShimTest):
    """An agent of the next release makes the files, a program runs with a library of this one."""

    cards = "h100"

    def test_limits_and_books_are_kept_in_larger_records(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        rewrite(claim, Next())
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        self.assertEqual(probe.ask("alloc", 1, GIB), OUT_OF_MEMORY)
        ledger = LedgerFile(claim.folder / "ledger")
        self.addCleanup(ledger.close)
        self.assertEqual(ledger.device(0).reserved_bytes, self.node.used())
        (slot,) = ledger.slots(claim.lock.held())
        self.assertEqual((slot.pid, slot.devices[0].total_bytes), (probe.process.pid, self.node.used()))

    def test_a_limit_that_the_new_agent_changes_holds_from_the_next_call_on(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        rewrite(claim, Next())
        claim.config = ConfigFile(claim.folder / "config", writable=True)
        probe = self.probe(claim)
        claim.update(memory_limit=4 * GIB)
        self.assertEqual(probe.ask("alloc", 0, 3 * GIB), 0)

    def test_a_version_that_allows_no_older_reader_is_refused_closed(self) -> None:
        """By the library, with a line in the log, and by the agent, in words."""
        claim = self.node.claim()
        rewrite(claim, Next(min_reader=2))
        probe = self.probe(claim, device=None)
        self.assertEqual(probe.ask("init", 0), OUT_OF_MEMORY)
        self.assertEqual(self.node.used(), 0)
        self.assertIn("layout", (claim.folder / "log").read_text())
        for kind, name in ((ConfigFile, "config"), (LedgerFile, "ledger")):
            with self.assertRaisesRegex(LayoutError, "version"):
                kind(claim.folder / name)

    def test_smaller_records_than_this_version_knows_are_refused_closed(self) -> None:
        claim = self.node.claim()
        rewrite(claim, Next(slot=2176 - 128))
        probe = self.probe(claim, device=None)
        self.assertEqual(probe.ask("init", 0), OUT_OF_MEMORY)
        with self.assertRaises(LayoutError):
            LedgerFile(claim.folder / "ledger")


class OldAgentNewLibrary(ShimTest):
    """Files of version 1 stay readable, whatever becomes of the structs: the golden bytes are what its agents wrote."""

    cards = "h100"

    def test_a_config_of_version_1_is_obeyed(self) -> None:
        claim = self.node.claim(memory=64 * GIB)
        old = golden(GOLDEN / "config.txt", 4352)
        uuid = self.node.uuids[0].encode().ljust(48, b"\0")
        record = bytearray(old[512:768])  # the golden file's second card: 8 GiB
        record[8:56] = uuid
        old[256:512] = record
        struct.pack_into("<I", old, 24, 1)
        (claim.folder / "config").write_bytes(old)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 9 * GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("alloc", 0, 7 * GIB), 0)

    def test_a_ledger_of_version_1_is_written_in_its_own_layout(self) -> None:
        claim = self.node.claim()
        with (claim.folder / "ledger").open("r+b") as ledger:
            ledger.write(golden(GOLDEN / "ledger-empty.txt", 4096))
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 10 * MIB), 0)
        with (claim.folder / "ledger").open("rb") as ledger:
            ledger.seek(4096)  # vcuda/ABI.md: the first card's reserved_bytes
            self.assertEqual(struct.unpack("<Q", ledger.read(8))[0], self.node.used())
            ledger.seek(12288)  # the first slot: epoch and process number
            self.assertEqual(struct.unpack("<QI", ledger.read(12))[1], probe.process.pid)


def golden(path: Path, size: int) -> bytearray:
    """The file whose rows the golden text lists."""
    file = bytearray(size)
    for line in path.read_text().splitlines():
        at, row = line.split()
        file[int(at, 16) : int(at, 16) + 16] = bytes.fromhex(row)
    return file


if __name__ == "__main__":
    unittest.main()
