"""Memory between processes: charged once, to the claim that exported it, for as long as anybody holds it, whoever goes first."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import os
import random
import unittest
from collections.abc import Callable

from harness import GIB, MIB, OUT_OF_MEMORY, Claim, Probe, ShimTest


def text(probe: Probe, *words: object) -> str:
    """The second word of an answer that is not a number: a handle in hexadecimal."""
    assert probe.process.stdin
    assert probe.process.stdout
    probe.process.stdin.write(" ".join(str(word) for word in words) + "\n")
    probe.process.stdin.flush()
    result, value = probe.process.stdout.readline().split()
    assert result == "0", f"{words!r} answered {result}"
    return value


class Sharing(ShimTest):
    def setUp(self) -> None:
        super().setUp()
        self.claim = self.node.claim(memory=4 * GIB)
        self.exporter, self.importer = self.probe(self.claim), self.probe(self.claim)
        self.before = self.claim.reserved()
        self.assertEqual(self.node.used(), self.before)

    def mailbox(self, probe: Probe) -> str:
        name = f"vcuda-test-{os.getpid()}-{probe.process.pid}"
        self.assertEqual(probe.ask("mailbox", name), 0)
        return name

    def assert_charged(self, extra: int, when: str) -> None:
        self.assertEqual(self.claim.reserved() - self.before, extra, f"books {when}")
        self.assertEqual(self.node.used() - self.before, extra, f"card {when}")

    # One way of sharing each: makes `size` bytes in the exporter and opens them in the importer; what lets go of them at either end.

    def by_ipc(self, size: int, index: int = 0) -> None:
        self.assertEqual(self.exporter.ask("alloc", index, size), 0)
        handle = text(self.exporter, "ipcget", index)
        self.assertEqual(self.importer.ask("ipcopen", index, handle), 0)

    def by_descriptor(self, size: int) -> None:
        self.assertEqual(self.exporter.ask("vmmshared", 0, 0, size), 0)
        self.assertEqual(self.exporter.ask("vmmexport", 0, self.mailbox(self.importer)), 0)
        self.assertEqual(
            [self.importer.ask("fetch"), self.importer.ask("vmmimport", 0), self.importer.ask("drop")], [0, 0, 0]
        )

    def by_pool(self, size: int) -> None:
        self.assertEqual(self.exporter.ask("poolalloc", 0, size), 0)
        self.assertEqual(self.exporter.ask("poolpost", self.mailbox(self.importer)), 0)
        self.assertEqual(self.importer.ask("fetch"), 0)
        self.assertEqual(self.importer.ask("poolimport", 0, text(self.exporter, "poolexport", 0)), 0)

    def ways(self) -> list[tuple[str, Callable[[int], None], tuple[str, ...], tuple[str, ...]]]:
        return [
            ("ipc", self.by_ipc, ("free 0",), ("ipcclose 0",)),
            ("descriptor", self.by_descriptor, ("vmmrelease 0",), ("vmmrelease 0",)),
            ("pool", self.by_pool, ("freeasync 0", "sync", "pooldestroy"), ("freeasync 0", "sync")),
        ]

    def all_well(self, probe: Probe, commands: tuple[str, ...]) -> None:
        self.assertEqual([probe.ask(command) for command in commands], [0] * len(commands))


class OneClaim(Sharing):
    def test_shared_memory_is_charged_once_and_the_importer_lets_go_first(self) -> None:
        for name, share, free, close in self.ways():
            with self.subTest(name):
                share(GIB)
                self.assert_charged(GIB, "while shared")
                self.all_well(self.importer, close)
                self.assert_charged(GIB, "after the importer let go")
                self.all_well(self.exporter, free)
                self.assert_charged(0, "after the exporter let go")

    def test_what_the_exporter_frees_stays_charged_while_the_importer_holds_it(self) -> None:
        for name, share, free, close in self.ways():
            with self.subTest(name):
                share(GIB)
                self.all_well(self.exporter, free)
                self.assert_charged(GIB, "after the exporter let go")
                self.assertEqual(self.exporter.ask("alloc", 9, 3 * GIB), OUT_OF_MEMORY)
                self.all_well(self.importer, close)
                self.assert_charged(0, "after the importer let go")
                self.assertEqual(self.exporter.ask("alloc", 9, 3 * GIB), 0)
                self.assertEqual(self.exporter.ask("free", 9), 0)
        self.assertLessEqual(self.node.peak(), 4 * GIB)

    def test_an_exporter_that_is_killed_leaves_the_charge_to_whoever_holds_on(self) -> None:
        for name, share, _, close in self.ways():
            with self.subTest(name):
                share(GIB)
                both = self.before
                self.exporter.kill()
                self.before //= 2  # its context is gone
                self.assertEqual(self.importer.ask("alloc", 9, 3 * GIB), OUT_OF_MEMORY)
                self.assert_charged(GIB, "after the kill")
                self.all_well(self.importer, close)
                self.assert_charged(0, "after the importer let go")
                self.exporter = self.probe(self.claim)
                self.before = both
        self.assertLessEqual(self.node.peak(), 4 * GIB)

    def test_an_importer_that_is_killed_changes_nothing_for_the_exporter(self) -> None:
        for name, share, free, _ in self.ways():
            with self.subTest(name):
                share(GIB)
                both = self.before
                self.importer.kill()
                self.before //= 2
                self.assertEqual(self.exporter.ask("alloc", 9, 4 * GIB), OUT_OF_MEMORY)
                self.assert_charged(GIB, "after the kill")
                self.all_well(self.exporter, free)
                self.assert_charged(0, "after the exporter let go")
                self.importer = self.probe(self.claim)
                self.before = both

    def test_small_blocks_share_the_page_that_is_shared(self) -> None:
        for index in (0, 1):
            self.by_ipc(1000, index)
        self.assert_charged(2 * MIB, "two blocks in one page")
        self.assertEqual([self.exporter.ask("free", 0), self.exporter.ask("free", 1)], [0, 0])
        self.assert_charged(2 * MIB, "freed here, open there")
        self.assertEqual([self.importer.ask("ipcclose", 0), self.importer.ask("ipcclose", 1)], [0, 0])
        self.assert_charged(0, "closed")

    def test_opened_twice_it_must_be_closed_twice(self) -> None:
        self.by_ipc(GIB)
        handle = text(self.exporter, "ipcget", 0)
        self.assertEqual(self.importer.ask("ipcopen", 1, handle), 0)
        self.assertEqual(self.exporter.ask("free", 0), 0)
        self.assertEqual(self.importer.ask("ipcclose", 0), 0)
        self.assert_charged(GIB, "open once more")
        self.assertEqual(self.importer.ask("ipcclose", 1), 0)
        self.assert_charged(0, "closed")

    def test_physical_memory_lives_until_the_last_release_and_unmap_anywhere(self) -> None:
        self.by_descriptor(GIB)
        self.assertEqual(self.importer.ask("vmmmap", 0, GIB), 0)
        self.assertEqual(self.exporter.ask("vmmmap", 0, GIB), 0)
        for probe, command in (
            (self.exporter, "vmmrelease 0"),
            (self.importer, "vmmrelease 0"),
            (self.exporter, f"vmmunmap 0 {GIB}"),
        ):
            self.assertEqual(probe.ask(command), 0)
            self.assert_charged(GIB, f"after {command}")
        self.assertEqual(self.importer.ask(f"vmmunmap 0 {GIB}"), 0)
        self.assert_charged(0, "after the last unmap")

    def test_the_end_of_a_context_closes_what_it_had_opened(self) -> None:
        self.by_ipc(GIB)
        self.assertEqual(self.exporter.ask("free", 0), 0)
        self.assertEqual(self.importer.ask("release", 0), 0)
        self.before //= 2
        self.assert_charged(0, "after the importer's context")

    def test_a_card_s_memory_is_charged_there_wherever_it_is_opened(self) -> None:
        claim = self.node.claim("two", cards=(0, 1), memory=4 * GIB)
        exporter, importer = self.probe(claim, device=1), self.probe(claim, device=0)
        before = claim.reserved(0), claim.reserved(1)
        self.assertEqual(exporter.ask("vmmshared", 0, 1, GIB), 0)
        self.assertEqual(exporter.ask("vmmexport", 0, self.mailbox(importer)), 0)
        self.assertEqual([importer.ask("fetch"), importer.ask("vmmimport", 0), importer.ask("drop")], [0, 0, 0])
        self.assertEqual(exporter.ask("vmmrelease", 0), 0)
        self.assertEqual((claim.reserved(0), claim.reserved(1)), (before[0], before[1] + GIB))
        self.assertEqual(importer.ask("vmmrelease", 0), 0)
        self.assertEqual((claim.reserved(0), claim.reserved(1)), before)
        self.assertEqual(self.node.used(1), before[1])


class AtRandom(ShimTest):
    """Four processes that allocate, export, open, close, free and are killed in any order and at any point."""

    def test_the_books_are_never_below_the_card_and_the_card_never_above_the_limit(self) -> None:
        for seed in range(12):
            self.claim = self.node.claim(f"claim{seed}", memory=6 * GIB)
            self.random = random.Random(seed)
            self.probes = [self.probe(self.claim) for _ in range(4)]
            self.held: list[dict[int, str]] = [{} for _ in self.probes]  # index -> command that lets go of it
            self.handles: list[tuple[int, str]] = []
            for step in range(60):
                self._step(step)
                self.assertLessEqual(self.node.used(), self.claim.reserved(), f"seed {seed}, step {step}")
            for probe in self.probes[1:]:
                probe.kill()
            for index, command in self.held[0].items():
                self.assertEqual(self.probes[0].ask(command, index), 0)
            self.probes[0].ask("alloc", 0, 8 * GIB)  # looks for the dead
            self.assertEqual(self.node.used(), self.claim.reserved(), f"seed {seed}")
            self.probes[0].kill()
        self.assertLessEqual(self.node.peak(), 6 * GIB)

    def _step(self, step: int) -> None:
        who = self.random.randrange(len(self.probes))
        probe, held = self.probes[who], self.held[who]
        act = self.random.choice(("alloc", "alloc", "open", "open", "open", "drop", "drop", "kill"))
        if act == "alloc":
            size = self.random.choice((1000, 200 * MIB, GIB))
            if probe.ask("alloc", step, size) == 0:
                held[step] = "free"
                self.handles.append((who, text(probe, "ipcget", step)))
        elif act == "open" and self.handles:
            owner, handle = self.random.choice(self.handles)
            if owner != who and probe.ask("ipcopen", step, handle) == 0:
                held[step] = "ipcclose"
        elif act == "drop" and held:
            index = self.random.choice(list(held))
            self.assertEqual(probe.ask(held.pop(index), index), 0)
        elif act == "kill" and self.random.random() < 0.3:
            self._kill_in_the_middle(probe, held)
            self.probes[who], self.held[who] = self.probe(self.claim), {}

    def _kill_in_the_middle(self, probe: Probe, held: dict[int, str]) -> None:
        """Of whatever it does with memory that it shares, at a moment that nobody chooses."""
        assert probe.process.stdin
        orders = [f"{command} {index}" for index, command in held.items()]
        orders += [f"ipcopen {100 + at} {handle}" for at, (_, handle) in enumerate(self.handles[-4:])]
        self.random.shuffle(orders)
        probe.process.stdin.write("\n".join([*orders, f"alloc 200 {GIB}", "ipcget 200"]) + "\n")
        probe.process.stdin.flush()
        for _ in range(self.random.randrange(len(orders) + 1)):
            assert probe.process.stdout
            probe.process.stdout.readline()
        probe.kill()


class TwoClaims(Sharing):
    def setUp(self) -> None:
        super().setUp()
        self.other: Claim = self.node.claim("other", memory=2 * GIB)
        self.importer.kill()
        self.importer = self.probe(self.other)
        self.own = self.other.reserved()

    def test_a_claim_pays_for_memory_that_it_opens_from_another(self) -> None:
        for name, share, free, close in self.ways():
            with self.subTest(name):
                share(GIB)
                self.assertEqual(self.other.reserved() - self.own, GIB)
                self.all_well(self.exporter, free)
                self.assertLessEqual(self.node.used(), self.claim.reserved() + self.other.reserved())
                self.all_well(self.importer, close)
                self.assertEqual(self.other.reserved(), self.own)

    def test_and_not_beyond_its_own_limit(self) -> None:
        self.assertEqual(self.exporter.ask("alloc", 0, 3 * GIB), 0)
        handle = text(self.exporter, "ipcget", 0)
        self.assertEqual(self.importer.ask("ipcopen", 0, handle), OUT_OF_MEMORY)
        self.assertEqual(self.other.reserved(), self.own)


if __name__ == "__main__":
    unittest.main()
