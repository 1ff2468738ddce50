"""Several processes of one claim: races, deaths of every kind, forks, lost locks, lost environments, claims that cannot be used."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import os
import random
import struct
import subprocess
import unittest

from harness import GIB, LIB, MIB, OUT_OF_MEMORY, PROGRAMS, SIM, Claim, Probe, ShimTest


class Race(ShimTest):
    def test_8_processes_of_64_threads_never_hold_one_byte_more_than_the_limit(self) -> None:
        limit = 3 * GIB  # half of what these racers take when nobody stops them
        claim = self.node.claim(memory=limit)
        racers = [claim.run("race", "64", "60", "64") for _ in range(8)]
        for racer in racers:
            assert racer.stdout
            self.assertEqual(racer.stdout.readline(), "ready\n")
        for racer in racers:
            self._go(racer)
        counts = [[int(word) for word in racer.stdout.readline().split()] for racer in racers if racer.stdout]
        peak, used, reserved = self.node.peak(), self.node.used(), claim.reserved()
        for racer in racers:
            self._go(racer)
            racer.communicate()
        self.assertEqual(sum(other for _, _, other in counts), 0, "only success or out-of-memory")
        self.assertGreater(sum(denied for _, denied, _ in counts), 0, "the race reached the limit")
        self.assertLessEqual(peak, limit)
        self.assertGreater(peak, limit - 512 * MIB, "and came close to it")
        self.assertEqual(used, reserved)

    @staticmethod
    def _go(racer: subprocess.Popen[str]) -> None:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()

    def test_of_two_requests_that_do_not_fit_together_exactly_one_succeeds(self) -> None:
        claim = self.node.claim(memory=10 * GIB)
        first, second = self.probe(claim), self.probe(claim)
        for _ in range(200):
            for probe in (first, second):
                assert probe.process.stdin
                probe.process.stdin.write(f"alloc 0 {6 * GIB}\n")
            for probe in (first, second):
                assert probe.process.stdin
                probe.process.stdin.flush()
            answers = [int(probe.process.stdout.readline()) for probe in (first, second) if probe.process.stdout]
            self.assertEqual(sorted(answers), [0, OUT_OF_MEMORY])
            winner = first if answers[0] == 0 else second
            self.assertEqual(winner.ask("free", 0), 0)


class Death(ShimTest):
    def test_the_bytes_of_the_killed_are_there_for_the_next_request(self) -> None:
        claim = self.node.claim(memory=10 * GIB)
        victim = self.probe(claim)
        self.assertEqual(victim.ask("alloc", 0, 8 * GIB), 0)
        victim.kill()
        heir = self.probe(claim)
        self.assertEqual(
            heir.answer("info")[1], 10 * GIB - self.node.used(), "free already before anything was given back"
        )
        self.assertEqual(heir.ask("alloc", 0, 8 * GIB), 0)
        self.assertEqual(claim.reserved(), self.node.used())
        self.assertEqual(claim.ledger.reclaimed_slots, 1)

    def test_survivors_keep_their_bytes_when_a_slot_before_them_dies(self) -> None:
        claim = self.node.claim(memory=9 * GIB)
        first, second, third = (self.probe(claim) for _ in range(3))
        overhead = claim.reserved() // 3
        for probe, gigabytes in ((first, 1), (second, 2), (third, 3)):
            self.assertEqual(probe.ask("alloc", 0, gigabytes * GIB), 0)
        first.kill()
        fourth = self.probe(claim)
        self.assertEqual(third.ask("alloc", 1, 2 * GIB), 0)
        self.assertEqual(fourth.ask("alloc", 0, 2 * GIB), OUT_OF_MEMORY)
        self.assertEqual(fourth.ask("alloc", 0, 1 * GIB), 0)
        self.assertEqual(claim.reserved(), 8 * GIB + 3 * overhead)
        self.assertEqual(claim.reserved(), self.node.used())

    def test_random_kills_never_lose_or_invent_a_byte(self) -> None:
        claim, dice, alive = self.node.claim(memory=6 * GIB), random.Random(7), []
        for _ in range(150):
            if len(alive) < 6 and dice.random() < 0.5:
                probe = self.probe(claim, device=None)
                if probe.ask("init", 0) == 0:
                    alive.append(probe)
                else:
                    probe.kill()
            elif alive:
                self._act(dice, alive)
            self.assertLessEqual(claim.reserved(), 6 * GIB)
        for probe in alive[1:]:
            probe.kill()
        if not alive:
            alive = [self.probe(claim)]
        alive[0].ask("alloc", 9, 6 * GIB)  # cannot fit: makes the survivor look for the dead
        self.assertEqual(claim.reserved(), self.node.used())
        self.assertLessEqual(self.node.peak(), 6 * GIB, "not one byte above the limit, whoever died when")

    @staticmethod
    def _act(dice: random.Random, alive: list[Probe]) -> None:
        probe = dice.choice(alive)
        if dice.random() < 0.3:
            alive.remove(probe)
            probe.kill()
        else:
            probe.ask(
                *dice.choice([("alloc", dice.randrange(8), dice.randrange(1, 900 * MIB)), ("free", dice.randrange(8))])
            )

    def test_a_slot_torn_by_a_kill_inside_an_operation_is_repaired_exactly(self) -> None:
        claim = self.node.claim(memory=4 * GIB)
        victim, survivor = self.probe(claim), self.probe(claim)
        self.assertEqual(survivor.ask("alloc", 0, 1 * GIB), 0)
        victim.kill()
        self._tear(claim, slot=0, reserved=700 * MIB)
        self.assertEqual(survivor.ask("alloc", 1, 2 * GIB + 500 * MIB), 0)
        self.assertEqual(claim.reserved(), self.node.used())

    @staticmethod
    def _tear(claim: Claim, *, slot: int, reserved: int) -> None:
        """What a kill leaves behind between the addition to the sum and the addition to the slot."""
        at = 12288 + slot * 2176
        with (claim.folder / "ledger").open("r+b") as ledger:
            for offset, added in ((at + 16, 1), (4096, reserved)):
                ledger.seek(offset)
                (value,) = struct.unpack("<Q", ledger.read(8))
                ledger.seek(offset)
                ledger.write(struct.pack("<Q", value + added))

    def test_the_slots_of_the_dead_are_used_again(self) -> None:
        claim = self.node.claim()
        for _ in range(20):
            self.probe(claim).kill()
        self.probe(claim).ask("alloc", 0, 1)
        self.assertLessEqual(len(list(claim.ledger.slots(claim.lock.held()))), 21)
        survivor = self.probe(claim)
        survivor.ask("alloc", 0, 1 << 50)
        self.probe(claim)
        self.assertEqual(sum(slot.alive for slot in claim.ledger.slots(claim.lock.held())), 3)


class Slots(ShimTest):
    def test_the_agent_sees_who_lives_and_what_they_hold(self) -> None:
        claim = self.node.claim()
        first, second = self.probe(claim), self.probe(claim)
        self.assertEqual(first.ask("alloc", 0, GIB), 0)
        slots = list(claim.ledger.slots(claim.lock.held()))
        self.assertEqual([slot.alive for slot in slots], [True, True])
        self.assertEqual([slot.pid for slot in slots], [first.process.pid, second.process.pid])
        self.assertEqual([slot.devices[0].bytes_by_class[0] for slot in slots], [GIB, 0])
        self.assertEqual([slot.devices[0].contexts for slot in slots], [1, 1])
        first.kill()
        self.assertEqual([slot.alive for slot in claim.ledger.slots(claim.lock.held())], [False, True])

    def test_a_child_of_fork_owns_nothing_and_its_end_frees_nothing(self) -> None:
        claim = self.node.claim()
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        before = claim.reserved()
        self.assertEqual(probe.ask("fork", MIB), 1, "CUDA does not work in the child, and nothing hangs")
        self.assertEqual(claim.reserved(), before)
        self.assertEqual(sum(slot.alive for slot in claim.ledger.slots(claim.lock.held())), 1)
        self.assertEqual(probe.ask("free", 0), 0)
        self.assertEqual(claim.reserved(), before - GIB)

    def test_a_program_that_closes_our_lock_gets_a_new_slot_with_all_its_bytes(self) -> None:
        claim = self.node.claim(memory=4 * GIB)
        probe = self.probe(claim)
        self.assertEqual(probe.ask("alloc", 0, GIB), 0)
        self.assertEqual(probe.ask("closefds"), 0)
        self.assertEqual(probe.ask("alloc", 1, GIB), 0)
        probe.ask("alloc", 2, 3 * GIB)  # cannot fit: the abandoned slot is given back
        self.assertEqual(claim.reserved(), self.node.used())
        self.assertEqual(sum(slot.alive for slot in claim.ledger.slots(claim.lock.held())), 1)

    def test_128_processes_start_at_once_and_each_has_a_slot(self) -> None:
        count = 128
        claim = self.node.claim(memory=70 * GIB, overhead_bytes=256 * MIB)
        probes = [self.probe(claim, device=None) for _ in range(count)]
        for probe in probes:
            assert probe.process.stdin
            probe.process.stdin.write(f"init 0\nalloc 0 {MIB}\n")
            probe.process.stdin.flush()
        for probe in probes:
            assert probe.process.stdout
            self.assertEqual([probe.process.stdout.readline() for _ in range(2)], ["0\n", "0\n"])
        slots = [slot for slot in claim.ledger.slots(claim.lock.held()) if slot.alive]
        self.assertEqual(len({slot.pid for slot in slots}), count)
        self.assertEqual(claim.reserved(), self.node.used())
        for probe in probes[1:]:
            probe.kill()
        self.assertEqual(probes[0].ask("alloc", 1, 69 * GIB), 0, "what the dead held is there again")
        self.assertEqual(claim.reserved(), self.node.used())


class LostEnvironment(ShimTest):
    def test_the_limit_holds_whatever_the_environment_says(self) -> None:
        claim = self.node.claim(memory=1 * GIB)
        probe = self.probe(claim, CUDA_VISIBLE_DEVICES="0", TESSERA_CLAIM="/nowhere", LD_BIND_NOW="1")
        self.assertEqual(probe.ask("alloc", 0, 2 * GIB), OUT_OF_MEMORY)

    def test_the_limit_holds_for_a_program_started_with_an_empty_environment(self) -> None:
        """Where the library lies in the driver's place, as in a pod, no variable is needed: the folder is on the loader's own path."""
        claim = self.node.claim(memory=1 * GIB)
        loader = [
            "env",
            "-i",
            "/lib64/ld-linux-x86-64.so.2",
            "--library-path",
            str(claim.library),
            str(PROGRAMS / "probe"),
        ]
        script = f"init 0\nalloc 0 {2 * GIB}\nalloc 0 {GIB // 2}\n"
        asan = [f"ASAN_OPTIONS={os.environ['ASAN_OPTIONS']}"] if "ASAN_OPTIONS" in os.environ else []
        done = subprocess.run(
            [*loader[:2], *asan, *loader[2:]], input=script, capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout.split(), ["0", str(OUT_OF_MEMORY), "0"])


class UnusableClaim(ShimTest):
    def assert_closed(self, claim: Claim) -> None:
        probe = self.probe(claim, device=None)
        self.assertEqual(probe.ask("init", 0), OUT_OF_MEMORY, "no context")
        self.assertEqual(probe.ask("vmm", 0, 0, 2 * MIB), OUT_OF_MEMORY, "no physical memory")
        self.assertEqual(self.node.used(), 0)

    def test_no_claim_folder_is_closed(self) -> None:
        claim = self.node.claim()
        (claim.library / "claim").unlink()
        self.assert_closed(claim)

    def test_a_foreign_ledger_is_closed_and_said_in_the_log(self) -> None:
        claim = self.node.claim()
        with (claim.folder / "ledger").open("r+b") as ledger:
            ledger.write(b"NOTACLAIM")
        self.assert_closed(claim)
        self.assertIn("layout", (claim.folder / "log").read_text())

    def test_a_foreign_config_is_closed_logged_and_counted(self) -> None:
        claim = self.node.claim()
        with (claim.folder / "config").open("r+b") as config:
            config.seek(12)
            config.write(struct.pack("<I", 99))
        self.assert_closed(claim)
        self.assertIn("layout", (claim.folder / "log").read_text())
        self.assertEqual(claim.ledger.refused_count, 1)

    def test_a_card_outside_the_claim_is_closed(self) -> None:
        claim = self.node.claim(cards=(0,))
        probe = self.probe(claim, device=None)
        self.assertEqual(probe.ask("init", 1), OUT_OF_MEMORY)
        self.assertEqual(probe.answer("total", 1), [0, 0])
        self.assertEqual(self.node.used(1), 0)
        self.assertIn("not part of the claim", (claim.folder / "log").read_text())

    def test_without_the_library_the_same_program_is_not_limited(self) -> None:
        """The control: what these tests see is the library's work."""
        self.assertTrue((LIB / "libcuda.so.1").exists())
        environment = {"LD_LIBRARY_PATH": str(SIM), "TESSERA_SIM_NODE": str(self.node.path)}
        if "ASAN_OPTIONS" in os.environ:
            environment["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
        done = subprocess.run(
            [str(PROGRAMS / "probe")],
            env=environment,
            input=f"init 0\nalloc 0 {60 * GIB}\n",
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout.split(), ["0", "0"])


if __name__ == "__main__":
    unittest.main()
