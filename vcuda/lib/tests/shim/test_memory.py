"""Memory limits through the simulated driver: every family, every way to die, and what the program is told."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest

from harness import GIB, INVALID_VALUE, MIB, OUT_OF_MEMORY, ShimTest

from vcuda.node.layout import OVERHEAD_PAGE, LedgerFile


class Limits(ShimTest):
    def test_allocating_past_the_limit_answers_out_of_memory_and_the_program_lives(self) -> None:
        probe = self.probe(self.node.claim(memory=2 * GIB))
        free = probe.answer("info")[1]
        self.assertEqual(probe.ask("alloc", 0, free), 0)
        self.assertEqual(probe.ask("alloc", 1, 1), OUT_OF_MEMORY)
        self.assertEqual(self.node.used(), 2 * GIB)
        self.assertEqual(probe.ask("free", 0), 0)
        self.assertEqual(probe.ask("alloc", 1, free // 2), 0)
        self.assertLessEqual(self.node.peak(), 2 * GIB)

    def test_the_card_is_charged_exactly_what_the_ledger_says(self) -> None:
        claim = self.node.claim(memory=4 * GIB)
        probe = self.probe(claim)
        sizes = [1, 512, 1000, 300_000, 1_048_575, 1_048_576, 2 * MIB, 2 * MIB + 1, 100 * MIB, 333_333_333]
        for index, size in enumerate(sizes):
            self.assertEqual(probe.ask("alloc", index, size), 0)
            self.assertEqual(claim.reserved(), self.node.used(), f"after allocating {size} bytes")
        for index, size in enumerate(sizes):
            self.assertEqual(probe.ask("free", index), 0)
            self.assertEqual(claim.reserved(), self.node.used(), f"after freeing {size} bytes")

    def test_pitched_and_managed_memory_count(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("pitch", 0, 1000, 100_000), 0)
        self.assertEqual(probe.ask("managed", 1, 200 * MIB), 0)
        self.assertEqual(claim.reserved(), self.node.used())
        self.assertEqual(probe.ask("managed", 2, 600 * MIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("pitch", 2, 1 << 20, 1 << 20), OUT_OF_MEMORY)
        self.assertEqual([probe.ask("free", 0), probe.ask("free", 1)], [0, 0])
        self.assertEqual(claim.reserved(), self.node.used())

    def test_absurd_sizes_do_not_wrap_the_books(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        for size in (2**64 - 1, 2**63, 2**56 + 1, 2**40):
            self.assertEqual(probe.ask("alloc", 0, size), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("pitch", 0, 2**63, 2**63), OUT_OF_MEMORY)
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(probe.ask("alloc", 0, MIB), 0)

    def test_a_request_that_the_driver_refuses_leaves_no_charge(self) -> None:
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        before = claim.reserved()
        self.node.tool("fault", "fail", "cuMemAlloc_v2", "2")
        self.assertEqual(probe.ask("alloc", 0, GIB), OUT_OF_MEMORY)
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(claim.ledger.device(0).denied_count, 0, "the driver refused, not the limit")
        self.assertEqual(probe.ask("alloc", 0, 0), INVALID_VALUE)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)

    def test_an_unknown_pointer_goes_to_the_driver_and_its_answer_comes_back(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        before = claim.reserved()
        self.assertEqual(probe.ask("freeptr", 0x1234_5678_0000), INVALID_VALUE)
        self.assertEqual(probe.ask("free", 0), 0)
        self.assertEqual(probe.ask("free", 0), INVALID_VALUE, "a double free is the driver's to refuse")
        self.assertEqual(claim.reserved(), before - GIB)

    def test_a_failed_free_keeps_the_block_charged(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        before = claim.reserved()
        self.node.tool("fault", "fail", "cuMemFree_v2", "719")
        self.assertEqual(probe.ask("free", 0), 719)
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(probe.ask("free", 0), 0)
        self.assertEqual(claim.reserved(), before - GIB)

    def test_limits_change_while_the_program_runs(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 2 * GIB), OUT_OF_MEMORY)
        claim.update(memory_limit=4 * GIB)
        self.assertEqual(probe.ask("alloc", 0, 2 * GIB), 0)
        claim.update(memory_limit=1 * GIB)
        self.assertEqual(probe.ask("alloc", 1, MIB), OUT_OF_MEMORY)
        self.assertEqual(probe.answer("info"), [0, 0, GIB], "over the limit: nothing is free, nothing wraps")

    def test_an_unlimited_claim_may_fill_the_card(self) -> None:
        claim = self.node.claim(memory=1 * GIB, flags=0)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 40 * GIB), 0)
        _, free, total = probe.answer("info")
        self.assertEqual(total, self.node.show()["cards"][0]["capacity_bytes"])
        self.assertEqual(total - free, self.node.used())

    def test_each_card_has_its_own_limit_by_uuid(self) -> None:
        claim = self.node.claim(cards=(1, 0), memory=2 * GIB)
        claim.update(0, memory_limit=1 * GIB)
        probe = self.probe(claim, device=1)
        self.assertEqual(probe.answer("total", 0), [0, 2 * GIB])
        self.assertEqual(probe.answer("total", 1), [0, 1 * GIB])
        self.assertEqual(probe.ask("alloc", 0, 1500 * MIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("init", 0), 0)
        self.assertEqual(probe.ask("alloc", 0, 1500 * MIB), 0)

    def test_limits_follow_the_uuid_whatever_is_visible_in_whatever_order(self) -> None:
        claim = self.node.claim(cards=(1, 0), memory=2 * GIB)
        claim.update(0, memory_limit=1 * GIB)
        limits = {0: 2 * GIB, 1: 1 * GIB}  # by card: the H100 and the T4
        first, second = self.node.uuids[:2]
        for visible, cards in (
            ("0,1", [0, 1]),
            ("1,0", [1, 0]),
            ("1", [1]),
            (second, [1]),
            (f"{second},{first}", [1, 0]),
            (f"{second[:10]},0", [1, 0]),  # the beginning of a UUID is enough
            ("0,7,1", [0]),  # what makes no sense ends the list
        ):
            for ordinal, card in enumerate(cards):
                with self.subTest(visible=visible, ordinal=ordinal):
                    probe = self.probe(claim, device=ordinal, CUDA_VISIBLE_DEVICES=visible)
                    self.assertEqual(probe.answer("total", ordinal), [0, limits[card]])
                    self.assertEqual(probe.answer("info")[2], limits[card])
                    before = self.node.used(card)
                    self.assertEqual(probe.ask("alloc", 0, limits[card]), OUT_OF_MEMORY)
                    self.assertEqual(probe.ask("alloc", 0, 256 * MIB), 0)
                    self.assertEqual(self.node.used(card), before + 256 * MIB)
                    self.assertEqual(claim.reserved(1 - card), self.node.used(card))
                    probe.kill()
                    self.probe(claim, device=ordinal, CUDA_VISIBLE_DEVICES=visible).kill()  # looks for the dead
            probe = self.probe(claim, device=None, CUDA_VISIBLE_DEVICES=visible)
            self.assertNotEqual(probe.ask("init", len(cards)), 0, f"{visible}: no more cards than these")

    def test_a_card_without_a_record_gets_nothing_in_any_order(self) -> None:
        claim = self.node.claim(cards=(1,), memory=1 * GIB)
        for visible, ordinal in (("0,1", 0), ("1,0", 1)):
            probe = self.probe(claim, device=None, CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual(probe.ask("init", ordinal), OUT_OF_MEMORY)
            self.assertEqual(probe.ask("init", 1 - ordinal), 0)
            self.assertEqual(probe.ask("vmm", 0, ordinal, 2 * MIB), OUT_OF_MEMORY)
        self.assertEqual(self.node.used(0), 0)

    def test_the_denied_are_counted(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim)
        probe.ask("alloc", 0, 2 * GIB)
        device = claim.ledger.device(0)
        self.assertEqual((device.denied_count, device.denied_bytes), (1, 2 * GIB))


class MigNames(ShimTest):
    """A claim to two parts of one card and to another card: each has its own limit, by name, whatever is visible."""

    cards = "h100,t4"
    options = ("--mig", "0=1g.10gb+3g.40gb")

    def test_every_family_is_charged_to_the_part_that_is_named(self) -> None:
        names = self.node.uuids
        small, large = (at for at, name in enumerate(names) if name.startswith("MIG-"))
        other = next(at for at, card in enumerate(self.node.show()["cards"]) if "T4" in card["name"])
        limits = {other: 2 * GIB, large: 3 * GIB, small: 1 * GIB}
        claim = self.node.claim(cards=tuple(limits), memory=GIB)
        for index, limit in enumerate(limits.values()):
            claim.update(index, memory_limit=limit)
        for index, (card, limit) in enumerate(limits.items()):
            with self.subTest(names[card]):
                probe = self.probe(claim, CUDA_VISIBLE_DEVICES=f"{names[card]}")
                self.assertEqual(probe.answer("total", 0), [0, limit])
                before = self.node.used(card)
                for command in ("alloc 0", "async 1", "poolalloc 2", "vmm 3 0"):
                    self.assertEqual(probe.ask(f"{command} {limit}"), OUT_OF_MEMORY)
                    self.assertEqual(probe.ask(f"{command} {64 * MIB}"), 0)
                self.assertEqual(probe.ask("array3d", 4, 4096, 4096, 0, 0x20, 1, 0), 0)
                self.assertEqual(self.node.used(card), before + 5 * 64 * MIB)
                self.assertEqual(claim.reserved(index), self.node.used(card))
                self.assertLessEqual(self.node.peak(card), limit)


class Contexts(ShimTest):
    def test_a_context_is_charged_what_it_really_takes(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        overhead = self.node.used()
        self.assertGreater(overhead, 0)
        self.assertEqual(claim.reserved(), overhead)
        self.assertEqual(claim.ledger.device(0).overhead_bytes, overhead, "learned for the next process")
        self.assertEqual(probe.ask("alloc", 0, 64 * MIB), 0)
        self.assertEqual(probe.ask("release", 0), 0)
        self.assertEqual((claim.reserved(), self.node.used()), (0, 0), "its blocks went with it")

    def test_a_context_that_does_not_fit_is_refused(self) -> None:
        claim = self.node.claim(memory=600 * MIB)
        first = self.probe(claim)
        self.assertEqual(first.ask("alloc", 0, 300 * MIB), 0)
        second = self.probe(claim, device=None)
        self.assertEqual(second.ask("init", 0), OUT_OF_MEMORY)
        self.assertLessEqual(self.node.peak(), 600 * MIB)
        self.assertEqual(first.ask("free", 0), 0)
        self.assertEqual(second.ask("init", 0), 0)

    def test_retaining_twice_costs_once(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("retain", 0), 0)
        self.assertEqual(probe.ask("create", 0), 0)
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(probe.ask("destroy"), 0)
        self.assertEqual(probe.ask("release", 0), 0)
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(probe.ask("release", 0), 0)
        self.assertEqual(claim.reserved(), 0)

    def test_a_reset_gives_the_blocks_back(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        before = claim.reserved()
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        self.assertEqual(probe.ask("reset", 0), 0)
        self.assertEqual(claim.reserved(), before)


STACK, PRINTF, HEAP = 0, 1, 2  # enum CUlimit


class Overheads(ShimTest):
    def setUp(self) -> None:
        super().setUp()
        self.claim = self.node.claim(memory=4 * GIB)
        self.program = self.probe(self.claim)
        self.context = self.node.used()

    def assert_charged(self, extra: int) -> None:
        self.assertEqual((self.claim.reserved(), self.node.used()), (self.context + extra,) * 2)

    def test_raised_limits_are_charged_before_the_driver_takes_them(self) -> None:
        stacks = 132 * 2048 * 1024  # 1 KiB more for each thread that an H100 can hold
        for limit, value, extra in (
            (HEAP, (8 << 20) + GIB, GIB),
            (PRINTF, (7 << 20) + 100, GIB + 2 * MIB),
            (STACK, 2048, GIB + 2 * MIB + stacks),
            (HEAP, 4 << 20, 2 * MIB + stacks),
            (STACK, 1024, 2 * MIB),
        ):
            self.assertEqual(self.program.ask("setlimit", limit, value), 0)
            self.assert_charged(extra)
        self.assertEqual(self.program.ask("release", 0), 0)
        self.assertEqual((self.claim.reserved(), self.node.used()), (0, 0))

    def test_a_limit_that_does_not_fit_is_refused(self) -> None:
        for limit, value in ((HEAP, 4 * GIB), (HEAP, 2**64 - 1), (STACK, 64 << 10), (STACK, 2**63)):
            self.assertEqual(self.program.ask("setlimit", limit, value), OUT_OF_MEMORY, (limit, value))
            self.assert_charged(0)
        self.node.tool("fault", "fail", "cuCtxSetLimit", "1")
        self.assertEqual(self.program.ask("setlimit", HEAP, GIB), INVALID_VALUE)
        self.assert_charged(0)
        self.assertLessEqual(self.node.peak(), 4 * GIB)

    def tell(self, overhead: int) -> None:
        """As the agent does."""
        LedgerFile(self.claim.folder / "ledger", writable=True).tell_overhead(0, 0, overhead // OVERHEAD_PAGE)

    def test_what_the_agent_has_measured_is_charged_modules_and_all(self) -> None:
        self.assertEqual(self.program.ask("loadmodule"), 0)
        self.assertEqual(self.node.used(), self.context + 2 * MIB)
        self.tell(self.node.used())
        self.assertEqual(self.program.ask("alloc", 0, 2 * MIB), 0)
        self.assert_charged(4 * MIB)
        self.tell(self.context)
        self.assertEqual(self.program.ask("free", 0), 0)
        self.assertEqual(self.program.ask("alloc", 0, 2 * MIB), 0)
        self.assertEqual(self.claim.reserved(), self.context + 2 * MIB)

    def test_whatever_is_asked_for_next_takes_it_in(self) -> None:
        self.assertEqual(self.program.ask("loadmodule"), 0)
        for at, command in enumerate(("async 0 2097152", "vmm 1 0 2097152", "array3d 2 1024 512 0 0x20 1 0", "info")):
            told = self.context + (at + 1) * 16 * MIB
            self.tell(told)
            before = self.node.used() - self.context - 2 * MIB  # what was asked for
            self.assertEqual(self.program.answer(command)[0], 0)
            asked = 2 * MIB if at < 3 else 0
            self.assertEqual(self.claim.reserved(), told + before + asked, command)

    def test_a_raised_limit_and_what_is_measured_of_it_are_charged_once(self) -> None:
        self.assertEqual(self.program.ask("setlimit", HEAP, (8 << 20) + GIB), 0)
        self.tell(self.node.used())
        self.assertEqual(self.program.ask("alloc", 0, 2 * MIB), 0)
        self.assert_charged(GIB + 2 * MIB)

    def test_measured_overhead_beyond_the_limit_leaves_no_room(self) -> None:
        self.tell(6 * GIB)
        self.assertEqual(self.program.ask("alloc", 0, 2 * MIB), OUT_OF_MEMORY)
        self.assertEqual(self.claim.reserved(), 6 * GIB)
        self.assertEqual(self.program.answer("info")[1], 0)


class Answers(ShimTest):
    def test_total_and_free_are_those_of_the_claim(self) -> None:
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.answer("total", 0), [0, 8 * GIB])
        self.assertEqual(probe.answer("info"), [0, 8 * GIB - claim.reserved(), 8 * GIB])

    def test_a_limit_above_the_card_shows_the_card(self) -> None:
        probe = self.probe(self.node.claim(memory=1 << 50))
        self.assertEqual(probe.answer("total", 0)[1], self.node.show()["cards"][0]["capacity_bytes"])

    def test_free_is_never_more_than_is_really_free(self) -> None:
        greedy = self.probe(self.node.claim("greedy", memory=79 * GIB))
        self.assertEqual(greedy.ask("alloc", 0, 76 * GIB), 0)
        probe = self.probe(self.node.claim("late", memory=8 * GIB))
        _, free, total = probe.answer("info")
        card = self.node.show()["cards"][0]
        self.assertEqual(total, 8 * GIB)
        self.assertEqual(free, card["capacity_bytes"] - card["used_bytes"])

    def test_the_neighbour_does_not_show(self) -> None:
        neighbour = self.probe(self.node.claim("neighbour", memory=20 * GIB))
        self.assertEqual(neighbour.ask("alloc", 0, 10 * GIB), 0)
        claim = self.node.claim("own", memory=8 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.answer("info"), [0, 8 * GIB - claim.reserved(), 8 * GIB])


if __name__ == "__main__":
    unittest.main()
