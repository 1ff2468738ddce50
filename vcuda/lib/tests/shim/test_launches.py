"""Every way to put work on the card is limited alike: kinds of launch, streams and graphs; what is only recorded is free; copies are counted.

In virtual time, on the simulator's own figures. Each kind has its control: without the limit the same program takes the card.
"""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest
from typing import Any

from test_compute import COMPUTE, UNLIMITED, ComputeTest, Workload

LAUNCHES = (
    *("plain", "plain_ptsz", "ex", "ex_ptsz", "cooperative", "cooperative_ptsz", "multi", "old", "priority"),
    *("graph1", "graph_ptsz", "uploaded", "updated", "changed"),
)
LARGE_GRAPHS = ("graph200", "child", "condition", "disabled")


class Kinds(ComputeTest):
    def share_of(self, kind: str, kernel_ns: int, mode: str = "async", *, share: int = 300, **more: Any) -> float:
        self.make_node(1 + more.pop("count", 1))
        claim = self.claim(share, **more)
        processes = self.participants - 1
        work = Workload(claim, kind, str(kernel_ns), mode, "60", program="kinds", count=processes)
        measured: float = self.measure([work], lambda watcher: watcher.share(3, 13))
        return measured

    def test_every_kind_of_launch_keeps_the_share(self) -> None:
        for kind in LAUNCHES:
            with self.subTest(kind=kind):
                self.assertAlmostEqual(self.share_of(kind, 1_000_000), 300, delta=20)

    def test_every_kind_of_graph_keeps_the_share(self) -> None:
        for kind in LARGE_GRAPHS:
            with self.subTest(kind=kind):
                self.assertAlmostEqual(self.share_of(kind, 100_000), 300, delta=20)

    def test_a_program_that_waits_after_each_launch_keeps_it_too(self) -> None:
        for kind in ("plain_ptsz", "cooperative", "multi", "graph200", "changed"):
            with self.subTest(kind=kind):
                self.assertAlmostEqual(self.share_of(kind, 1_000_000, "sync"), 300, delta=20)

    def test_short_and_long_kernels_in_graphs_and_many_processes(self) -> None:
        for kind, kernel_ns, count in (
            ("graph200", 10_000, 1),
            ("ex_ptsz", 10_000, 2),
            ("child", 5_000_000, 1),
            ("ex", 1_000_000, 16),
        ):
            with self.subTest(kind=kind, kernel_ns=kernel_ns, count=count):
                self.assertAlmostEqual(self.share_of(kind, kernel_ns, count=count), 300, delta=20)

    def test_without_the_limit_each_takes_the_card(self) -> None:
        """The control: the checks above fail when the limiter is off."""
        for kind in (*LAUNCHES, *LARGE_GRAPHS):
            with self.subTest(kind=kind):
                self.assertGreater(self.share_of(kind, 1_000_000, flags=UNLIMITED), 900)

    def test_a_graph_whose_node_goes_back_and_forth_has_two_costs(self) -> None:
        """Each setting is a kernel of its own in the books: learned once, not unknown at each change."""
        self.make_node(2)
        claim = self.claim(300, flags=COMPUTE)
        work = Workload(claim, "changed", "1000000", "async", "60", program="kinds")
        self.measure([work], lambda watcher: watcher.share(3, 8))
        self.assertEqual(claim.ledger.device(0).launches_unknown, 2)


if __name__ == "__main__":
    unittest.main()
