"""What NVML tells inside a claim: its limit as the card, its own processes, its own utilisation; nothing of the neighbours."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest

from harness import GIB, MIB, Claim, Node, Probe, ShimTest

NO_PERMISSION, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED = 4, 7, 2, 3


def ask(claim: Claim, what: str, card: int | str = 0) -> list[int]:
    done = claim.run("nvmlprobe", what, str(card))
    out, _ = done.communicate()
    assert done.returncode == 0, f"nvmlprobe {what} ended with {done.returncode}"
    return [int(word) for word in out.split()]


class Memory(ShimTest):
    def test_cuda_and_both_versions_of_nvml_agree(self) -> None:
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 3 * GIB), 0)
        _, free, total = probe.answer("info")
        self.assertEqual(ask(claim, "memory"), [0, total, free, total - free])
        self.assertEqual(ask(claim, "memory2"), [0, total, free, claim.reserved(), 0])
        self.assertEqual(probe.answer("total", 0), [0, total])

    def test_what_neighbours_hold_shows_as_less_free_and_never_wraps(self) -> None:
        greedy = self.probe(self.node.claim("greedy", memory=79 * GIB))
        self.assertEqual(greedy.ask("alloc", 0, 77 * GIB), 0)
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        _, free, total = probe.answer("info")
        result, nvml_total, nvml_free, used, reserved = ask(claim, "memory2")
        self.assertEqual((result, nvml_total, nvml_free, used), (0, total, free, claim.reserved()))
        self.assertEqual(used + nvml_free + reserved, nvml_total)

    def test_a_wrong_version_is_the_driver_s_to_refuse(self) -> None:
        self.assertNotEqual(ask(self.node.claim(), "wrongversion")[0], 0)

    def test_a_card_outside_the_claim_tells_nothing(self) -> None:
        other = self.probe(self.node.claim("other", cards=(1,)), device=1)
        self.assertEqual(other.ask("alloc", 0, GIB), 0)
        claim = self.node.claim(cards=(0,))
        for what in ("memory", "memory2", "utilisation", "processes1", "processes2", "processes3", "samples"):
            self.assertEqual(ask(claim, what, self.node.uuids[1])[0], NO_PERMISSION, what)

    def test_the_claim_s_cards_are_the_only_ones_and_count_from_nought(self) -> None:
        second = self.node.claim("second", cards=(1,), memory=3 * GIB)
        self.assertEqual(ask(second, "cards"), [0, 0, 1, 1, 0, 0, INVALID_ARGUMENT, 99, INVALID_ARGUMENT, 99])
        self.assertEqual(ask(second, "memory")[:2], [0, 3 * GIB], "index 0 is the claim's first card, not the node's")
        both = self.node.claim("both", cards=(1, 0))
        self.assertEqual(ask(both, "cards"), [0, 0, 2, 2, 0, 0, 0, 1, INVALID_ARGUMENT, 99])

    def test_the_dead_are_not_counted(self) -> None:
        claim = self.node.claim(memory=8 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, 3 * GIB), 0)
        probe.kill()
        self.assertEqual(ask(claim, "memory2")[2:4], [8 * GIB, 0])
        self.assertEqual(ask(claim, "processes3"), [0])


class Processes(ShimTest):
    def two(self) -> tuple[Claim, Probe, Probe]:
        claim, neighbour = self.node.claim(), self.node.claim("neighbour", memory=9 * GIB)
        self.assertEqual(self.probe(neighbour).ask("alloc", 0, GIB), 0)
        return claim, self.probe(claim), self.probe(claim)

    def test_every_version_lists_exactly_the_claim_s_own(self) -> None:
        claim, first, second = self.two()
        self.assertEqual(first.ask("alloc", 0, 64 * MIB), 0)
        overhead = claim.ledger.device(0).overhead_bytes
        expected = [0, first.process.pid, overhead + 64 * MIB, second.process.pid, overhead]
        for what in ("processes1", "processes2", "processes3"):
            self.assertEqual(ask(claim, what), expected, what)
        self.assertEqual(ask(claim, "graphics"), [0, 0])

    def test_counts_and_buffers_behave_as_the_driver_s(self) -> None:
        claim, _, _ = self.two()
        self.assertEqual(ask(claim, "size"), [INSUFFICIENT_SIZE, 2, INSUFFICIENT_SIZE, 2, INVALID_ARGUMENT])
        self.assertEqual(ask(claim, "canary"), [0, 2, 1])
        empty = self.node.claim("empty")
        self.assertEqual(ask(empty, "size")[:4], [0, 0, 0, 0])
        self.assertEqual(ask(empty, "canary"), [0, 0, 1])

    def test_samples_of_neighbours_are_left_out(self) -> None:
        claim, first, second = self.two()
        result, *pids = ask(claim, "samples")
        self.assertIn(result, (0, 6), "6: the driver has no samples")
        self.assertLessEqual(set(pids), {first.process.pid, second.process.pid})


class Utilisation(ShimTest):
    def test_the_figure_is_the_agent_s_for_this_claim(self) -> None:
        claim = self.node.claim()
        claim.update(busy=304)
        claim.config.beat(now(self.node))
        self.assertEqual(ask(claim, "utilisation"), [0, 30, 0])

    def test_without_an_agent_it_is_not_supported_rather_than_the_neighbours(self) -> None:
        self.assertEqual(ask(self.node.claim(), "utilisation")[0], NOT_SUPPORTED)


def now(node: Node) -> int:
    return int(node.show()["now_ns"])


if __name__ == "__main__":
    unittest.main()
