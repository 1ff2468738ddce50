"""Stream-ordered memory, pools, arrays and virtual memory management: charged what the card holds, given back when the card lets go."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest

from harness import GIB, MIB, OUT_OF_MEMORY, Claim, ShimTest


class Family(ShimTest):
    def assert_agree(self, claim: Claim, when: str) -> None:
        """The books are never below the card; equal, unless the family is charged by a formula."""
        self.assertEqual(claim.reserved(), self.node.used(), when)


class StreamOrdered(Family):
    def test_memory_is_charged_and_comes_back_when_the_pool_lets_go(self) -> None:
        claim = self.node.claim(memory=4 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("async", 0, GIB), 0)
        self.assert_agree(claim, "after the allocation")
        self.assertGreaterEqual(claim.reserved(), before + GIB)
        self.assertEqual(probe.ask("freeasync", 0), 0)
        self.assertEqual(probe.ask("sync"), 0)
        self.assert_agree(claim, "after free and synchronisation")
        self.assertEqual(claim.reserved(), before)

    def test_small_blocks_share_pages_and_the_books_follow(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        for command in ("async", "poolalloc"):
            for index, size in enumerate((1000, MIB, 3 * MIB, 100, 50 * MIB)):
                self.assertEqual(probe.ask(command, index, size), 0)
                self.assert_agree(claim, f"after {command} of {size} bytes")

    def test_the_limit_holds(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("async", 0, GIB), 0)
        self.assertEqual(probe.ask("async", 1, GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("alloc", 2, GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("async", 1, GIB // 4), 0)
        self.assertLessEqual(self.node.peak(), 2 * GIB)

    def test_what_a_pool_keeps_stays_charged_and_can_be_used_again_at_the_limit(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("keep", 2**63), 0)
        self.assertEqual(probe.ask("async", 0, 1600 * MIB), 0)
        self.assertEqual(probe.ask("freeasync", 0), 0)
        self.assertEqual(probe.ask("sync"), 0)
        self.assert_agree(claim, "kept by the pool")
        self.assertEqual(probe.ask("alloc", 1, 600 * MIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("async", 2, 1600 * MIB), 0, "from what the pool holds, with nothing left to reserve")
        self.assertEqual(probe.ask("freeasync", 2), 0)
        self.assertEqual(probe.ask("sync"), 0)
        self.assertEqual(probe.ask("trim"), 0)
        self.assert_agree(claim, "after trimming")
        self.assertEqual(probe.ask("alloc", 1, 600 * MIB), 0)
        self.assertLessEqual(self.node.peak(), 2 * GIB)

    def test_a_pool_of_one_s_own_is_charged_and_its_end_gives_everything_back(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("poolalloc", 0, 512 * MIB), 0)
        self.assert_agree(claim, "allocated from a pool")
        self.assertEqual(probe.ask("poolalloc", 1, 2 * GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("freeasync", 0), 0)
        self.assertEqual(probe.ask("sync"), 0)
        self.assertEqual(probe.ask("pooldestroy"), 0)
        self.assertEqual(claim.reserved(), before)
        self.assert_agree(claim, "after the pool is gone")

    def test_a_linear_block_may_be_freed_in_stream_order_and_the_other_way_round(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("alloc", 0, 512 * MIB), 0)
        self.assertEqual(probe.ask("async", 1, 512 * MIB), 0)
        freed = probe.ask("freeasync", 0)
        if freed:  # a driver may refuse it; then the block stays charged
            self.assertEqual(probe.ask("free", 0), 0)
        self.assertEqual(probe.ask("free", 1), 0)
        self.assertEqual(probe.ask("sync"), 0)
        probe.answer("info")
        self.assert_agree(claim, "after the frees")
        self.assertEqual(claim.reserved(), before)


class Arrays(Family):
    def test_arrays_count_and_come_back(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("array", 0, 16384, 4096), 0)
        self.assertGreaterEqual(claim.reserved(), before + 16384 * 4096 * 4)
        self.assertGreaterEqual(claim.reserved(), self.node.used())
        self.assertEqual(probe.ask("array", 1, 32768, 16384), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("array", 2, 1000, 0), 0, "one dimension is not free of charge")
        self.assertGreater(claim.reserved(), before + 16384 * 4096 * 4)
        self.assertEqual([probe.ask("freearray", 0), probe.ask("freearray", 2)], [0, 0])
        self.assertEqual(claim.reserved(), before)
        self.assert_agree(claim, "after the last array")


class VirtualMemory(Family):
    def test_physical_memory_is_charged_to_the_card_that_it_lies_on(self) -> None:
        claim = self.node.claim(cards=(0, 1), memory=4 * GIB)
        probe = self.probe(claim, device=0)
        before = claim.reserved(0)
        self.assertEqual(probe.ask("vmm", 0, 1, GIB), 0)
        self.assertEqual((claim.reserved(0), claim.reserved(1)), (before, GIB))
        self.assertEqual(self.node.used(1), GIB)
        self.assertEqual(probe.ask("vmm", 1, 1, 4 * GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("vmmrelease", 0), 0)
        self.assertEqual(claim.reserved(1), 0)

    def test_it_lives_until_the_later_of_release_and_unmap(self) -> None:
        claim = self.node.claim(memory=4 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        for first, second in (("vmmrelease 0", f"vmmunmap 0 {GIB}"), (f"vmmunmap 0 {GIB}", "vmmrelease 0")):
            self.assertEqual(probe.ask("vmm", 0, 0, GIB), 0)
            self.assertEqual(probe.ask("vmmmap", 0, GIB), 0)
            self.assertEqual(probe.ask(first), 0)
            self.assertEqual(claim.reserved(), before + GIB, f"after {first}")
            self.assertEqual(probe.ask(second), 0)
            self.assertEqual(claim.reserved(), before, f"after {second}")
            self.assert_agree(claim, f"after {second}")


class Copies(Family):
    def test_copied_bytes_are_counted_by_direction(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, MIB), 0)
        self.assertEqual(
            [probe.ask("todevice", 0, 1000), probe.ask("tohost", 0, 300), probe.ask("tohost", 0, 30)], [0, 0, 0]
        )
        device = claim.ledger.device(0)
        self.assertEqual((device.copy_to_device, device.copy_to_host, device.copy_on_device), (1000, 330, 0))


if __name__ == "__main__":
    unittest.main()
