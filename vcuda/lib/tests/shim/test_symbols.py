"""Which function a program gets: our hook exactly where the driver's own answer is a hooked function of the same version."""

# ruff: noqa: PT009 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import re
import subprocess
import unittest

from harness import LIB, PROJECT, SIM, Claim, ShimTest

DEFAULT, LEGACY, PER_THREAD = 0, 1, 2
HOOKS = frozenset(re.findall(r"^HOOK\((\w+),", (PROJECT / "vcuda/lib/src/hooks.def").read_text(), re.MULTILINE))
NVML_HOOKS = frozenset(
    re.findall(r"^(?:HOOK|REFUSE)\((\w+),", (PROJECT / "vcuda/lib/src/nvml_hooks.def").read_text(), re.MULTILINE)
)


def route(claim: Claim, version: int, flags: int, *names: str, **more: str) -> dict[str, tuple[int, int, str]]:
    out, _ = claim.run("route", str(version), str(flags), *names, **more).communicate()
    rows = [line.split() for line in out.splitlines()]
    return {name: (int(result), int(status), where) for name, result, status, where in rows}


def exported(library: str) -> set[str]:
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


class Exports(unittest.TestCase):
    def test_the_libraries_export_their_hooks_and_nothing_else(self) -> None:
        self.assertEqual(exported(str(LIB / "libcuda.so.1")), HOOKS)
        self.assertEqual(exported(str(LIB / "libnvidia-ml.so.1")), NVML_HOOKS)

    def test_everything_that_gives_or_takes_device_memory_is_hooked_or_known(self) -> None:
        """A new function of the driver that allocates must not slip by unnoticed."""
        gives = re.compile(
            r"^cu(Mem(Alloc(?!Host)|Create$|Pool(Create|Destroy)|Free(?!Host)|(Pool)?(Import|Export))"
            r"|Array(3D)?Create|MipmappedArrayCreate|Ipc.*Mem)"
        )
        offered = {name for name in exported(str(SIM / "libcuda.so.1")) if gives.match(name)}
        a_pool_without_its_pointers = {"cuMemPoolImportFromShareableHandle", "cuMemPoolExportToShareableHandle"}
        self.assertEqual(offered - HOOKS, a_pool_without_its_pointers)
        launches = {
            name
            for name in exported(str(SIM / "libcuda.so.1"))
            if re.match(r"^cu(Launch(?!HostFunc)|GraphLaunch)", name)
        }
        self.assertEqual(launches - HOOKS, set())


class ProcAddress(ShimTest):
    def test_the_version_asked_for_decides_and_we_follow_the_driver(self) -> None:
        claim = self.node.claim()
        new = route(
            claim,
            12000,
            DEFAULT,
            "cuMemAlloc",
            "cuMemFree",
            "cuMemGetInfo",
            "cuCtxCreate",
            "cuInit",
            "cuGetProcAddress",
        )
        self.assertEqual(new["cuMemAlloc"], (0, 0, "shim:cuMemAlloc_v2"))
        self.assertEqual(new["cuMemFree"], (0, 0, "shim:cuMemFree_v2"))
        self.assertEqual(new["cuMemGetInfo"], (0, 0, "shim:cuMemGetInfo_v2"))
        self.assertEqual(new["cuGetProcAddress"], (0, 0, "shim:cuGetProcAddress_v2"))
        self.assertEqual(new["cuInit"], (0, 0, "driver:cuInit"))
        old = route(claim, 11030, DEFAULT, "cuGetProcAddress")
        self.assertEqual(old["cuGetProcAddress"], (0, 0, "shim:cuGetProcAddress"))

    def test_the_two_stream_flavours_are_two_hooks(self) -> None:
        claim = self.node.claim()
        names = ("cuLaunchKernel", "cuMemAllocAsync", "cuStreamSynchronize", "cuGraphLaunch")
        for name, (_, _, where) in route(claim, 12000, LEGACY, *names).items():
            self.assertEqual(where, f"shim:{name}")
        for name, (_, _, where) in route(claim, 12000, PER_THREAD, *names).items():
            self.assertEqual(where, f"shim:{name}_ptsz")

    def test_every_answer_is_the_driver_s_own_or_our_hook_of_exactly_that_function(self) -> None:
        """Each name of the driver, at several versions and flavours, against a run without the library."""
        names = sorted(
            {
                re.sub(r"_v\d+|_ptsz|_ptds", "", name)
                for name in exported(str(SIM / "libcuda.so.1"))
                if name.startswith("cu")
            }
        )
        claim, bare = self.node.claim(), Bare(self.node.claim("bare"))
        for version in (2000, 3020, 11030, 12000, 12090, 13000):
            for flags in (DEFAULT, LEGACY, PER_THREAD):
                ours, theirs = route(claim, version, flags, *names), route(bare, version, flags, *names)
                for name in names:
                    function = theirs[name][2].partition(":")[2]
                    side = "shim" if function in HOOKS else "driver"
                    expected = f"{side}:{function}" if function else "-"
                    self.assertEqual(
                        ours[name], (*theirs[name][:2], expected), f"{name} at {version} with flags {flags}"
                    )

    def test_an_unknown_name_is_the_driver_s_to_refuse(self) -> None:
        answer = route(self.node.claim(), 12000, DEFAULT, "cuNoSuchThing")["cuNoSuchThing"]
        self.assertEqual(answer, route(Bare(self.node.claim("bare")), 12000, DEFAULT, "cuNoSuchThing")["cuNoSuchThing"])
        self.assertEqual(answer[1:], (1, "-"), "status: not found")

    def test_dlsym_by_handle_finds_hooks_in_us_and_the_rest_in_the_driver(self) -> None:
        found = route(
            self.node.claim(),
            0,
            0,
            "cuMemAlloc_v2",
            "cuLaunchKernel_ptsz",
            "cuInit",
            "cuDriverGetVersion",
            "cuNoSuchThing",
        )
        self.assertEqual(found["cuMemAlloc_v2"][2], "shim:cuMemAlloc_v2")
        self.assertEqual(found["cuLaunchKernel_ptsz"][2], "shim:cuLaunchKernel_ptsz")
        self.assertEqual(found["cuInit"][2], "driver:cuInit")
        self.assertEqual(found["cuDriverGetVersion"][2], "driver:cuDriverGetVersion")
        self.assertEqual(found["cuNoSuchThing"][2], "-")


class Bare(Claim):
    """The driver without the library, found the same way."""

    def __init__(self, claim: Claim) -> None:
        self.__dict__.update(claim.__dict__)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**more) | {"LD_LIBRARY_PATH": str(self.library / "driver")}


if __name__ == "__main__":
    unittest.main()
