"""The compute limit through the simulated driver in virtual time: shares, kinds of launch, live changes, refusals, and the control without it.

The card's busy time is read from the simulator's own state at exact moments of its clock.
"""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any, TypeVar

from harness import MIB, OUT_OF_MEMORY, Claim, Node, ShimTest

from vcuda.bench.simnode import SECOND, Participant, in_virtual_time

T = TypeVar("T")
COMPUTE, UNLIMITED = 2, 0


class Workload:
    """Processes of one claim that launch from one command on, all inside virtual time."""

    def __init__(self, claim: Claim, *words: str, count: int = 1, program: str = "busy") -> None:
        words = words if len(words) > 2 else (*words, "60")
        self.processes = [claim.run(program, *words) for _ in range(count)]
        for process in self.processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"

    def go(self) -> None:
        for process in self.processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


class ComputeTest(ShimTest):
    cards = "h100"

    def claim(self, share: int, *, name: str = "claim", flags: int = COMPUTE, **fields: Any) -> Claim:
        fields = {"guarantee": share, "ceiling": share, "share": share, "overhead_bytes": 256 * MIB} | fields
        return self.node.claim(name, flags=flags, **fields)

    def setUp(self) -> None:
        """The node waits for its first participants, so that a run does not depend on who starts first."""

    def make_node(self, participants: int) -> None:
        self.participants = participants
        self.node = Node(self.cards, "--time", "virtual", "--hold", str(participants))
        self.addCleanup(self.node.close)

    def measure(self, work: list[Workload], look: Callable[[Participant], T]) -> T:
        """Run `look` beside the workloads."""

        def go() -> None:
            for workload in work:
                workload.go()

        try:
            return in_virtual_time(self.node, go, look)
        finally:
            for workload in work:
                workload.kill()


class Shares(ComputeTest):
    def share_of(self, share: int, kernels: str, mode: str, *, count: int = 1, flags: int = COMPUTE) -> float:
        self.make_node(count + 1)
        work = Workload(self.claim(share, flags=flags), kernels, mode, count=count)
        measured: float = self.measure([work], lambda watcher: watcher.share(2, 12))
        return measured

    def test_one_process_gets_its_share_with_any_kernel(self) -> None:
        for kernels in ("100000", "1000000", "5000000", "50000000", "10000,100000,1000000,20000000"):
            for mode in ("sync", "async"):
                with self.subTest(kernels=kernels, mode=mode):
                    self.assertAlmostEqual(self.share_of(300, kernels, mode), 300, delta=20)

    def test_any_share_is_kept(self) -> None:
        for share in (50, 100, 600, 900):
            with self.subTest(share=share):
                self.assertAlmostEqual(self.share_of(share, "1000000", "async"), share, delta=20)

    def test_four_processes_get_together_what_one_gets(self) -> None:
        for kernels in ("1000000", "5000000", "20000000"):
            with self.subTest(kernels=kernels):
                self.assertAlmostEqual(self.share_of(300, kernels, "async", count=4), 300, delta=20)

    def test_a_graph_is_limited_like_its_kernels(self) -> None:
        self.assertAlmostEqual(self.share_of(300, "100000", "graph"), 300, delta=20)

    def test_a_huge_kernel_is_paid_for_afterwards(self) -> None:
        self.make_node(2)
        work = Workload(self.claim(100), "500000000", "sync")
        measured = self.measure([work], lambda watcher: watcher.share(10, 60))
        self.assertAlmostEqual(measured, 100, delta=15)

    def test_without_the_limit_the_same_program_takes_the_card(self) -> None:
        """The control: the checks above fail when the limiter is off."""
        self.assertGreater(self.share_of(300, "1000000", "async", flags=UNLIMITED), 990)

    def test_a_start_does_not_burst(self) -> None:
        self.make_node(17)
        work = Workload(self.claim(100), "1000000", "async", count=16)
        busy = self.measure([work], lambda watcher: watcher.until(1))
        self.assertLess(
            busy, 0.1 * SECOND + 0.1 * SECOND, "at most 100 ms above the share, with 16 processes and unknown kernels"
        )


class Changes(ComputeTest):
    def test_a_new_share_holds_at_once_in_both_directions(self) -> None:
        self.make_node(2)
        claim = self.claim(100)
        work = Workload(claim, "5000000", "async")

        def look(watcher: Participant) -> list[float]:
            found = [watcher.share(3, 4)]
            for at, share in ((4, 900), (6, 100)):
                claim.update(share=share)
                found.append(watcher.share(at + 0.5, at + 1.5))
                watcher.until(at + 2)
            return found

        low, high, low_again = self.measure([work], look)
        self.assertAlmostEqual(low, 100, delta=50)
        self.assertAlmostEqual(high, 900, delta=50)
        self.assertAlmostEqual(low_again, 100, delta=50)

    def test_lifting_the_limit_frees_a_waiting_program(self) -> None:
        self.make_node(2)
        claim = self.claim(50)
        work = Workload(claim, "50000000", "async")

        def look(watcher: Participant) -> float:
            watcher.until(2)
            claim.update(flags=UNLIMITED)
            return watcher.share(3, 4)

        self.assertGreater(self.measure([work], look), 950)

    def test_the_multiplier_of_the_agent_scales_what_is_charged(self) -> None:
        self.make_node(2)
        claim = self.claim(300, m_ppm=1_500_000)
        work = Workload(claim, "1000000", "async")
        self.assertAlmostEqual(self.measure([work], lambda watcher: watcher.share(2, 8)), 200, delta=10)

    def test_two_claims_on_a_card_each_get_their_share(self) -> None:
        self.make_node(3)
        # What the agent writes when it sees the neighbour busy for 60 % and 30 % of the time.
        small = self.claim(300, name="small", others=1, phi_ppm=1_600_000)
        large = self.claim(600, name="large", others=1, phi_ppm=1_300_000)
        works = [Workload(small, "1000000", "async"), Workload(large, "1000000", "async")]

        def look(watcher: Participant) -> dict[int, float]:
            def busy() -> dict[int, int]:
                return {process["pid"]: process["busy_ns"] for process in self.node.show()["cards"][0]["processes"]}

            watcher.until(3)
            before = busy()
            watcher.until(13)
            return {pid: (after - before[pid]) / 1e7 for pid, after in busy().items()}

        shares = self.measure(works, look)
        self.assertAlmostEqual(shares[works[0].processes[0].pid], 300, delta=50)
        self.assertAlmostEqual(shares[works[1].processes[0].pid], 600, delta=50)


class Books(ComputeTest):
    def test_counters_tell_launches_waiting_and_what_was_charged(self) -> None:
        self.make_node(2)
        claim = self.claim(250)
        work = Workload(claim, "1000000", "async")

        def look(watcher: Participant) -> tuple[int, Any, Any]:
            busy = watcher.until(10)
            return busy, claim.ledger.device(0), next(claim.ledger.slots(claim.lock.held())).devices[0]

        busy, device, process = self.measure([work], look)
        self.assertAlmostEqual(device.launches, 2500, delta=60)
        self.assertAlmostEqual(device.charged_ns, busy, delta=60e6)
        self.assertGreater(device.throttled_ns, 5 * SECOND)
        self.assertEqual((device.waiting, process.waiting), (1, 1))
        self.assertAlmostEqual(device.largest_est_ns, 1_000_000, delta=50_000)
        self.assertGreater(process.last_launch_ns, 9 * SECOND)
        self.assertEqual(device.launches_unknown, 1)

    def test_a_killed_waiter_holds_nobody_up(self) -> None:
        self.make_node(3)
        claim = self.claim(300)
        victim, survivor = Workload(claim, "1000000", "async"), Workload(claim, "1000000", "async")

        def look(watcher: Participant) -> float:
            watcher.until(1)
            victim.processes[0].kill()
            victim.processes[0].wait()
            return watcher.share(2, 6)

        self.assertAlmostEqual(self.measure([victim, survivor], look), 300, delta=20)

    def test_a_launch_without_a_usable_claim_is_refused(self) -> None:
        self.make_node(1)
        claim = self.claim(300)
        work = Workload(claim, "1000000", "async")
        self.assertEqual(work.processes[0].poll(), None)
        work.kill()
        (claim.library / "claim").unlink()
        refused = claim.run("busy", "1000000", "async", "1")
        refused.communicate()
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(OUT_OF_MEMORY, 2)


if __name__ == "__main__":
    unittest.main()
