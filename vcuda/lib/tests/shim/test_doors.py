"""Whatever way a program finds the driver, and whatever started it, it meets the library; old drivers lack names and nothing breaks."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import os
import subprocess
import time
import unittest

from harness import GIB, MIB, OUT_OF_MEMORY, PROGRAMS, SIM, Claim, ShimTest
from test_symbols import HOOKS, Bare, exported, route

OLD = ("11.2", "11.5", "12.0")
VERSIONS = ("11.2", "11.4", "11.8", "12.0", "12.3", "12.5", "12.9", "13.0", "13.2", "13.5")


def answer(claim: Claim, *words: str, program: str = "doors", **more: str) -> str:
    done = claim.run(program, *words, **more)
    out, _ = done.communicate()
    assert done.returncode == 0, f"{program} {words} ended with {done.returncode}"
    return out


class Doors(ShimTest):
    def test_every_door_leads_to_the_hook_and_past_the_library_to_the_rest(self) -> None:
        claim = self.node.claim()
        found = dict(line.split() for line in answer(claim, str(claim.library / "libcuda.so.1")).splitlines())
        bare = dict(line.split() for line in answer(Bare(self.node.claim("bare")), "libcuda.so.1").splitlines())
        hook = "shim:cuMemAlloc_v2"
        expected = dict.fromkeys(("link", "name", "path", "deepbind", "default", "next", "next-again", "runtime"), hook)
        expected |= {
            "unhooked": "driver:cuDeviceGetName",
            "runtime-itself": "shim:cuGetProcAddress_v2",
            "one-handle": "yes",
            "versioned": "-" if bare["versioned"] == "-" else hook,
        }
        self.assertEqual(found, expected)

    def test_a_program_linked_statically_gets_nothing(self) -> None:
        """glibc gives libraries that such a program opens no thread-local storage: no driver works in it, with or without limits."""
        if not (PROGRAMS / "alone").exists():
            self.skipTest("built for sanitizers, or the machine has no static libc")
        for claim in (self.node.claim(), Bare(self.node.claim("bare"))):
            done = claim.run("alone", str(MIB))
            done.communicate()
            self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.node.used(), 0)


class Starts(ShimTest):
    """The limit after exec, in an orphan, and with an injected profiler."""

    def test_a_program_that_executes_another_leaves_no_slot_behind(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = claim.run("doors", "again", str(PROGRAMS / "holder"), str(3 * GIB))
        assert probe.stdin
        assert probe.stdout
        self.assertEqual(probe.stdout.readline(), "ready\n")
        probe.stdin.write("go\n")
        probe.stdin.flush()
        self.assertEqual(probe.stdout.readline(), f"{OUT_OF_MEMORY}\n")
        self.assertEqual(len(claim.lock.held()), 1)
        probe.communicate()
        self.assertEqual(claim.lock.held(), frozenset())

    def test_an_orphan_in_a_session_of_its_own_is_limited(self) -> None:
        claim = self.node.claim(memory=2 * GIB)
        probe = claim.run("doors", "daemon", str(PROGRAMS / "holder"), str(3 * GIB))
        out, _ = probe.communicate("go\n")
        self.assertEqual(out, f"ready\n{OUT_OF_MEMORY}\n")

    def test_an_injected_library_is_loaded_and_finds_the_hooks(self) -> None:
        claim = self.node.claim()
        out = answer(claim, "environment", CUDA_INJECTION64_PATH=str(PROGRAMS / "libinjected.so"))
        self.assertEqual(out, "injected shim\nsame\n")

    def test_nothing_of_the_program_is_changed(self) -> None:
        out = answer(
            self.node.claim(), "environment", CUDA_MPS_PIPE_DIRECTORY="/nowhere", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30"
        )
        self.assertEqual(out, "same\n")

    def test_work_while_threads_and_the_program_end(self) -> None:
        for _ in range(5):
            claim = self.node.claim(f"claim{time.monotonic_ns()}", flags=3)
            self.assertEqual(answer(claim, "exit"), "ended\n")
            after = self.probe(claim)
            self.assertEqual(after.ask("alloc", 0, 7 * GIB), 0, "nothing was left behind")
            after.kill()

    def test_checkpoint_calls_go_to_the_driver_and_the_bytes_stay_charged(self) -> None:
        claim = self.node.claim()
        self.assertEqual(answer(claim, "checkpoint"), "0 0 0 0 0 2 driver:cuCheckpointProcessLock\n")


class Versions(ShimTest):
    def older(self, version: str) -> Claim:
        claim = self.node.claim(version)
        driver = claim.library / "driver" / "libcuda.so.1"
        driver.unlink()
        driver.symlink_to(SIM / version / "libcuda.so.1")
        return claim

    def test_a_program_runs_on_drivers_that_lack_newer_names(self) -> None:
        for version in OLD:
            with self.subTest(version=version):
                claim = self.older(version)
                for size, result in ((GIB, 0), (8 * GIB, OUT_OF_MEMORY)):
                    out, _ = claim.run("holder", str(size), TESSERA_SIM_CUDA=version).communicate("go\n")
                    self.assertEqual(out, f"ready\n{result}\n")
                busy = claim.run("busy", "1000", "async", "0.01", TESSERA_SIM_CUDA=version)
                out, _ = busy.communicate("go\n")
                self.assertEqual(busy.returncode, 0)
                self.assertGreater(int(out.split()[1]), 0, "launches")
                self.assertEqual(claim.ledger.device(0).launches, int(out.split()[1]))

    def test_names_that_an_old_driver_lacks_are_not_found_there(self) -> None:
        names = {"11.2": {"cuGetProcAddress_v2", "cuLaunchKernelEx", "cuLibraryLoadData"}, "12.0": {"cuGraphAddNode"}}
        for version, missing in names.items():
            offered = exported(str(SIM / version / "libcuda.so.1"))
            self.assertEqual(offered & missing, set())
            self.assertIn("cuMemAllocAsync", offered)

    def test_each_version_gets_the_hook_where_the_driver_answers_with_a_hooked_function(self) -> None:
        names = (
            "cuMemAlloc",
            "cuCtxCreate",
            "cuLaunchKernel",
            "cuLaunchKernelEx",
            "cuGraphInstantiate",
            "cuMemcpyBatchAsync",
        )
        names += ("cuCtxSynchronize", "cuMemcpyHtoD", "cuGraphExecUpdate", "cuStreamBeginCapture", "cuGetProcAddress")
        claim, bare = self.node.claim(), Bare(self.node.claim("bare"))
        seen = set()
        for version in VERSIONS:
            major, minor = version.split(".")
            number = int(major) * 1000 + int(minor) * 10
            for flags in (0, 1, 2):
                ours = route(claim, number, flags, *names, TESSERA_SIM_CUDA=version)
                theirs = route(bare, number, flags, *names, TESSERA_SIM_CUDA=version)
                for name in names:
                    function = theirs[name][2].partition(":")[2]
                    side = "shim" if function in HOOKS else "driver"
                    seen.add(function)
                    self.assertEqual(
                        ours[name], (*theirs[name][:2], f"{side}:{function}" if function else "-"), f"{name} {version}"
                    )
        self.assertLessEqual(
            {"cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuCtxSynchronize_v2", "cuMemcpyBatchAsync_v2"}, seen
        )


class Bypass(unittest.TestCase):
    def test_the_library_needs_glibc_and_says_so_in_its_header(self) -> None:
        """Where there is another C library, the loader refuses it at once, like NVIDIA's own driver: no half-working state."""
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            out = subprocess.run(
                ["readelf", "-d", os.fspath(PROGRAMS.parent / name)], capture_output=True, text=True, check=True
            )
            needed = {line.split("[")[1].rstrip("]") for line in out.stdout.splitlines() if "(NEEDED)" in line}
            self.assertIn("libc.so.6", needed)
            self.assertIn(f"$ORIGIN/driver/{name}", needed)


if __name__ == "__main__":
    unittest.main()
