"""What NVML tells inside a claim: its limit as the card, its own processes, its own utilisation; nothing of the neighbours."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import re
import unittest

from harness import GIB, MIB, OUT_OF_MEMORY, PROJECT, Claim, Node, Probe, ShimTest

INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 7, 2, 3, 4, 6


def ask(claim: Claim, what: str, card: int | str = 0, *names: str) -> list[int]:
    done = claim.run("nvmlprobe", what, str(card), *names)
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
            self.assertEqual(ask(claim, what, self.node.uuids[1]), [NOT_FOUND], what)

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


class Classes(ShimTest):
    """Every function of NVML's header is answered for the claim, refused, or known to tell of the card alone."""

    def classes(self) -> dict[str, str]:
        text = (PROJECT / "vcuda/lib/src/nvml_hooks.def").read_text()
        rows = re.findall(r"^(HOOK|CALL|REFUSE|PASS)\((\w+)(?:, (\w+))?", text, re.MULTILINE)
        names = [name for _, name, _ in rows]
        self.assertEqual(len(names), len(set(names)), "one class each")
        return {name: detail if kind == "REFUSE" else kind for kind, name, detail in rows}

    def test_every_function_of_the_header_has_a_class(self) -> None:
        header = (PROJECT / "build/headers/nvml.h").read_text()
        declared = set(re.findall(r"DECLDIR (nvml\w+)", header))
        self.assertGreater(len(declared), 380)
        only_in_drivers = {f"nvmlDeviceGet{kind}RunningProcesses_v2" for kind in ("Compute", "Graphics", "MPSCompute")}
        newer = {"nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1"}
        self.assertEqual(declared ^ self.classes().keys(), (only_in_drivers | newer) - declared)

    def test_what_is_refused_is_refused_whatever_is_asked(self) -> None:
        codes = {"NOT_SUPPORTED": NOT_SUPPORTED, "NO_PERMISSION": NO_PERMISSION}
        refused = {name: codes[kind] for name, kind in self.classes().items() if kind in codes}
        self.assertEqual(ask(self.node.claim(), "call", 0, *refused), list(refused.values()))

    def test_each_is_found_where_its_class_says(self) -> None:
        """2: in the driver, or 0 where this driver has none; 1: in front of it."""
        classes = self.classes()
        found = dict(zip(classes, ask(self.node.claim(), "where", 0, *classes), strict=True))
        self.assertEqual(
            {name for name, place in found.items() if place == 1},
            {n for n, c in classes.items() if c not in ("PASS", "CALL")},
        )
        self.assertIn("nvmlDeviceGetTemperature", {name for name, place in found.items() if place == 2})

    def test_nothing_that_changes_a_card_or_tells_of_others_passes(self) -> None:
        """New names of a new header must be looked at, not passed by a pattern."""
        suspicious = re.compile(
            r"Vgpu|Accounting(Pids|Stats)|Samples?(?!Alloc)|Sessions|Stats$|Throughput|DeviceSet(?!CpuAff)|Reset|Create(?!$)|Destroy"
        )
        passed = {name for name, kind in self.classes().items() if kind in ("PASS", "CALL")}
        self.assertEqual(
            {name for name in passed if suspicious.search(name)} - {"nvmlEventSetCreate", "nvmlSystemEventSetCreate"},
            set(),
        )

    def test_fields_that_count_everybody_s_bytes_are_not_supported(self) -> None:
        self.assertEqual(ask(self.node.claim(), "fields")[2:], [NOT_SUPPORTED, NOT_SUPPORTED])

    def test_a_card_is_found_by_all_its_names_when_it_is_the_claim_s(self) -> None:
        self.assertEqual(set(ask(self.node.claim(), "ways")), {0})


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
        for what in ("samples", "samples2"):
            result, *pids = ask(claim, what)
            self.assertIn(result, (0, NOT_FOUND), "not found: the driver has no samples")
            self.assertLessEqual(set(pids), {first.process.pid, second.process.pid}, what)

    def test_a_busy_neighbour_is_in_no_sample_and_own_work_is(self) -> None:
        claim, neighbour = self.node.claim(), self.node.claim("neighbour")
        works = [work.run("busy", "1000000", "async", "30") for work in (claim, neighbour)]
        for work in works:
            assert work.stdin
            assert work.stdout
            self.assertEqual(work.stdout.readline(), "ready\n")
            work.stdin.write("go\n")
            work.stdin.flush()
        own, other = (work.pid for work in works)
        driver = Driver(claim)
        try:
            while {own, other} - set(ask(driver, "samples")[1:]):
                self.assertIsNone(works[0].poll(), "until both are in the driver's own samples")
            for what in ("samples", "samples2"):
                result, *pids = ask(claim, what)
                self.assertEqual((result, set(pids)), (0, {own}), what)
        finally:
            for work in works:
                work.kill()
                work.communicate()


class Driver(Claim):
    """The driver's NVML as it is, without the library."""

    def __init__(self, claim: Claim) -> None:
        self.__dict__.update(claim.__dict__)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**more) | {"LD_LIBRARY_PATH": str(self.library / "driver")}


class Mig(ShimTest):
    """A claim to a MIG device: it is limited like a card, its card is seen and tells nothing, the others are not there."""

    cards = "h100"
    options = ("--mig", "0=1g.10gb+3g.40gb+2g.20gb")

    def test_a_claim_to_a_part_sees_this_part_alone(self) -> None:
        _, first, second, _ = self.node.uuids
        claim = self.node.claim(cards=(2,), memory=5 * GIB)
        self.assertEqual(ask(claim, "parts"), [0, NOT_FOUND, NOT_FOUND, 0, 5 * GIB, NO_PERMISSION])
        self.assertEqual(ask(claim, "cards"), [0, 0, 1, 1, 0, 0, INVALID_ARGUMENT, 99, INVALID_ARGUMENT, 99])
        self.assertEqual(ask(claim, "memory", second)[:2], [0, 5 * GIB])
        self.assertEqual(ask(claim, "memory", first), [NOT_FOUND])

    def test_its_limit_holds(self) -> None:
        claim = self.node.claim(cards=(2,), memory=5 * GIB)
        probe = self.probe(claim, CUDA_VISIBLE_DEVICES=self.node.uuids[2])
        self.assertEqual(probe.ask("alloc", 0, 6 * GIB), OUT_OF_MEMORY)
        self.assertEqual(probe.ask("alloc", 0, 4 * GIB), 0)
        self.assertEqual(ask(claim, "processes3", self.node.uuids[2])[:2], [0, probe.process.pid])

    def test_a_part_of_others_is_closed(self) -> None:
        claim = self.node.claim(cards=(2,), memory=5 * GIB)
        probe = self.probe(claim, device=None, CUDA_VISIBLE_DEVICES=self.node.uuids[1])
        self.assertEqual(probe.ask("init", 0), OUT_OF_MEMORY)

    def test_who_has_the_whole_card_sees_all_its_parts(self) -> None:
        self.assertEqual(ask(self.node.claim(cards=(0,)), "parts")[:3], [0, 0, 0])


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
