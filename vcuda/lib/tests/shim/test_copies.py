"""Copies are not limited, but the claim's books tell how much went which way, and how long the large ones took."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest

from harness import Claim, Node, ShimTest


class Copies(ShimTest):
    def setUp(self) -> None:
        self.node = Node("h100", "--time", "virtual")
        self.addCleanup(self.node.close)

    def copied(self, claim: Claim, *words: str) -> tuple[list[int], int]:
        """What the program says it has copied: to the card, from it, on it; and how long the large one took, ns."""
        done = claim.run("copies", *words)
        out, _ = done.communicate()
        self.assertEqual(done.returncode, 0)
        *sums, took = (int(word) for word in out.split())
        return sums, took

    def test_every_copy_is_counted_in_its_direction(self) -> None:
        for flags in (1, 2):  # with and without a compute limit
            claim = self.node.claim(f"flags{flags}", flags=flags)
            sums, _ = self.copied(claim)
            device = claim.ledger.device(0)
            self.assertEqual([device.copy_to_device, device.copy_to_host, device.copy_on_device], sums)

    def test_the_time_of_a_large_copy_is_that_of_the_card(self) -> None:
        claim = self.node.claim()
        _, took = self.copied(claim)
        device = claim.ledger.device(0)
        self.assertAlmostEqual(device.copy_to_device_ns / took, 1, delta=0.02)
        self.assertEqual((device.copy_to_host_ns, device.copy_on_device_ns), (0, 0), "small ones are not timed")

    def test_what_is_only_recorded_is_no_copy(self) -> None:
        claim = self.node.claim()
        sums, _ = self.copied(claim, "capture")
        device = claim.ledger.device(0)
        self.assertEqual([device.copy_to_device, device.copy_to_host, device.copy_on_device], sums)

    def test_copies_do_not_make_a_process_look_busy(self) -> None:
        """The lender goes by the kernels in flight."""
        claim = self.node.claim(flags=2)
        self.copied(claim)
        device = claim.ledger.device(0)
        self.assertEqual((device.launches, device.charged_ns, device.tat_ns), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
