"""Stream-ordered memory, pools, arrays and virtual memory management: charged what the card holds, given back when the card lets go."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest

from harness import GIB, INVALID_VALUE, MIB, OUT_OF_MEMORY, Claim, ShimTest


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


class Graphs(Family):
    def setUp(self) -> None:
        super().setUp()
        self.claim = self.node.claim(memory=2 * GIB)
        self.program = self.probe(self.claim)
        self.before = self.claim.reserved()

    def all_well(self, *commands: str) -> None:
        for command in commands:
            self.assertEqual(self.program.ask(command), 0, command)

    def assert_charged(self, extra: int, when: str) -> None:
        self.assertEqual(self.claim.reserved() - self.before, extra, when)
        self.assert_agree(self.claim, when)

    def test_a_graph_is_charged_from_its_launch_until_the_allocator_is_trimmed(self) -> None:
        for command in (f"graph 0 {GIB} 1", f"capture 0 {GIB}"):
            self.all_well(command)
            self.assert_charged(0, "instantiated")
            self.all_well("graphlaunch 0")
            self.assert_charged(GIB, "launched")
            self.all_well("sync", "graphdestroy 0")
            self.assert_charged(GIB, "destroyed: the allocator keeps it")
            self.assertEqual(self.program.ask("alloc", 1, GIB), OUT_OF_MEMORY)
            self.all_well("graphtrim")
            self.assert_charged(0, "trimmed")

    def test_uploading_charges_what_the_launch_then_uses(self) -> None:
        self.all_well(f"graph 0 {GIB} 1", "graphupload 0")
        self.assert_charged(GIB, "uploaded")
        self.all_well("graphlaunch 0", "graphlaunch 0", "sync")
        self.assert_charged(GIB, "launched")

    def test_a_graph_that_does_not_fit_is_not_launched(self) -> None:
        self.all_well(f"graph 0 {2 * GIB} 1", f"graph 1 {900 * MIB} 1", f"graph 2 {GIB} 1")
        self.assertEqual(self.program.ask("graphlaunch", 0), OUT_OF_MEMORY)
        self.assert_charged(0, "refused")
        self.all_well("graphlaunch 1", "sync", "graphlaunch 2", "sync")
        self.assert_charged(GIB, "the first graph's idle memory made way")
        self.assertLessEqual(self.node.peak(), 2 * GIB)

    def test_a_graph_that_fills_the_limit_can_be_launched_again_and_again(self) -> None:
        self.all_well(f"graph 0 {1500 * MIB} 1")
        self.all_well(*["graphlaunch 0"] * 5, "sync", "graphtrim", *["graphlaunch 0"] * 3, "sync")
        self.assert_charged(1500 * MIB, "in one stream")
        self.assertLessEqual(self.node.peak(), 2 * GIB)

    def test_memory_that_outlives_its_graph_stays_charged_until_it_is_freed_and_trimmed(self) -> None:
        for free in ("free 0", "freeasync 0"):
            self.all_well(f"graph 0 {GIB} 0", "graphlaunch 0", "graphdestroy 0", "graphtrim")
            self.assert_charged(GIB, "still allocated")
            self.all_well(free, "sync")
            self.assert_charged(GIB, "freed: the allocator keeps it")
            self.all_well("graphtrim")
            self.assert_charged(0, "trimmed")

    def test_an_allocation_is_captured_at_the_limit(self) -> None:
        self.assertEqual(self.program.ask("alloc", 1, 2 * GIB - self.before), 0)
        self.all_well(f"capture 0 {GIB}")
        self.assertEqual(self.program.ask("graphlaunch", 0), OUT_OF_MEMORY)
        self.all_well("free 1", "graphlaunch 0")
        self.assertLessEqual(self.node.peak(), 2 * GIB)


class OnTheHost(Family):
    def test_memory_of_the_host_costs_nothing(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        for command in (f"vmmhost 0 {4 * GIB}", f"poolhost 1 {4 * GIB}", f"pinned {64 * MIB}"):
            self.assertEqual(probe.ask(command), 0, command)
            self.assertEqual(claim.reserved(), before, command)
            self.assert_agree(claim, command)
        self.assertEqual([probe.ask("freeasync", 1), probe.ask("sync"), probe.ask("vmmrelease", 0)], [0, 0, 0])
        self.assertEqual(claim.reserved(), before)

    def test_a_peer_s_memory_is_its_own_card_s(self) -> None:
        claim = self.node.claim(cards=(0, 1), memory=4 * GIB)
        probe = self.probe(claim, device=0)
        self.assertEqual(probe.ask("init", 1), 0)
        both = claim.reserved(0), claim.reserved(1)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        self.assertEqual(probe.ask("init", 0), 0)
        probe.ask("peer", 1)  # allowed or not: it takes no memory
        self.assertEqual((claim.reserved(0), claim.reserved(1)), (both[0], both[1] + GIB))
        self.assertEqual((self.node.used(0), self.node.used(1)), (both[0], both[1] + GIB))


class External(Family):
    def test_memory_of_a_graphics_api_is_charged_to_whoever_imports_it_while_anything_is_mapped(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual([probe.ask("external", 0, GIB), probe.ask("mapbuffer", 0, GIB)], [0, 0])
        self.assertEqual(probe.ask("mapmipmap", 0, 1024, 1024), 0)
        self.assertEqual(claim.reserved(), before + GIB)
        self.assert_agree(claim, "imported")
        for command in ("dropexternal", "free", "freemipmap"):
            self.assertEqual(claim.reserved(), before + GIB, f"before {command}")
            self.assert_agree(claim, f"before {command}")
            self.assertEqual(probe.ask(command, 0), 0)
        self.assertEqual(claim.reserved(), before)
        self.assert_agree(claim, "let go")

    def test_what_does_not_fit_is_not_imported(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("external", 0, 2 * GIB), OUT_OF_MEMORY)
        self.assertEqual(claim.reserved(), before)
        self.assert_agree(claim, "refused")


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

    def test_every_kind_of_array_is_charged_what_it_takes(self) -> None:
        """Width, height, depth, format, channels, flags, levels: all of 1 MiB and more, so that the card has whole pages of it."""
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        uint8, half, floating, unorm8x4, bc1, bc7 = 0x01, 0x10, 0x20, 0xC2, 0x91, 0x9D
        layered, cubemap = 1, 4
        shapes = (
            (1 << 21, 0, 0, floating, 1, 0, 1),  # 1-D
            (5000, 3001, 0, half, 4, 0, 1),  # 2-D
            (301, 203, 107, uint8, 2, 0, 1),  # 3-D
            (100_000, 0, 50, floating, 1, layered, 1),  # 1-D, layers
            (1000, 1000, 17, half, 2, layered, 1),  # 2-D, layers
            (512, 512, 6, floating, 4, cubemap, 1),
            (512, 512, 18, floating, 4, cubemap | layered, 1),
            (4096, 2048, 0, unorm8x4, 4, 0, 1),
            (4095, 4093, 0, bc1, 4, 0, 1),
            (4095, 4093, 0, bc7, 4, 0, 1),
            (4096, 4096, 0, floating, 1, 0, 5),  # some levels
            (3000, 1000, 0, floating, 4, 0, 99),  # all of them
            (256, 256, 256, floating, 1, 0, 9),
            (1024, 1024, 6, floating, 1, cubemap, 11),
            (1024, 512, 12, half, 4, layered, 10),
        )
        for index, shape in enumerate(shapes):
            *box, levels = shape
            making = ("array3d", index, *box) if levels == 1 else ("mipmap", index, *box, levels)
            before = self.node.used()
            self.assertEqual(probe.ask(*making), 0, making)
            self.assertGreater(self.node.used(), before)
            self.assert_agree(claim, f"after {making}")
        for index, shape in enumerate(shapes):
            self.assertEqual(probe.ask("freearray" if shape[-1] == 1 else "freemipmap", index), 0)
            self.assert_agree(claim, f"after the end of {shape}")

    def test_a_small_array_is_charged_a_page_and_never_less_than_the_card_gives(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        for index in range(20):
            self.assertEqual(probe.ask("array3d", index, 100, 100, 0, 0x20, 1, 0), 0)
            self.assertGreaterEqual(claim.reserved(), self.node.used())
        self.assertEqual(claim.reserved(), before + 20 * 2 * MIB)

    def test_an_array_past_the_limit_or_without_sense_is_refused(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("mipmap", 0, 16384, 8192, 0, 0x20, 2, 0, 14), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("array3d", 0, 2**62, 2**62, 2**62, 0x20, 4, 0), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("array3d", 0, 512, 511, 6, 0x20, 1, 4), INVALID_VALUE)
        self.assertEqual(claim.reserved(), before)
        self.assertLessEqual(self.node.peak(), GIB)


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
