"""Binary interface: what the libraries export has the types that the driver's own headers give to that name and version.

The definitions are compiled against cuda.h and nvml.h, where a different or a missing declaration is an error (-Wmissing-prototypes). Here the
declarations are held against a second source, the typed pointers of cudaTypedefs.h, each of one CUDA version; and the sizes and places of
fields on which the library relies are pinned, so that newer headers cannot move them unnoticed.
"""

# ruff: noqa: PT009, PT027 - unittest, so that ctest needs nothing but Python
from __future__ import annotations

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import PROJECT
from test_symbols import HOOKS, NVML_HOOKS

COMPILER = os.environ.get("CC", "cc")
HEADERS = PROJECT / "build" / "headers"
API = (PROJECT / "vcuda/sim/src/cuda/api.def").read_text()
TYPEDEFS = (HEADERS / "cudaTypedefs.h").read_text()
NEWER = set(
    re.findall(r"\b(cu[A-Z]\w+)\(", (PROJECT / "vcuda/lib/src/newer.h").read_text())
)  # of CUDA 13, not in these headers
PREAMBLE = """#define __CUDA_API_VERSION_INTERNAL 1
#define CUDA_ENABLE_DEPRECATED 1
#include <stddef.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <nvml.h>
#include <stdio.h>
"""
# struct or union: size; fields on which the library relies, with their places. Bytes; x86-64 and arm64.
PINNED = {
    "CUuuid": (16, {}),
    "CUDA_ARRAY_DESCRIPTOR": (24, {"Width": 0, "Height": 8, "Format": 16, "NumChannels": 20}),
    "CUDA_ARRAY_DESCRIPTOR_v1": (16, {"Width": 0, "Height": 4, "Format": 8, "NumChannels": 12}),
    "CUDA_ARRAY3D_DESCRIPTOR": (40, {"Depth": 16, "Format": 24, "NumChannels": 28, "Flags": 32}),
    "CUDA_ARRAY3D_DESCRIPTOR_v1": (24, {"Depth": 8, "Format": 12, "NumChannels": 16, "Flags": 20}),
    "CUmemLocation": (8, {"type": 0, "id": 4}),
    "CUmemAllocationProp": (32, {"type": 0, "location": 8}),
    "CUmemPoolProps": (88, {"location": 8}),
    "CUlaunchConfig": (56, {"gridDimX": 0, "blockDimX": 12, "sharedMemBytes": 24, "hStream": 32, "attrs": 40}),
    "CUDA_KERNEL_NODE_PARAMS": (72, {"func": 0, "gridDimX": 8, "blockDimX": 20, "sharedMemBytes": 32, "kern": 56}),
    "CUDA_GRAPH_INSTANTIATE_PARAMS": (32, {"flags": 0, "hUploadStream": 8}),
    "nvmlMemory_t": (24, {"total": 0, "free": 8, "used": 16}),
    "nvmlMemory_v2_t": (40, {"version": 0, "total": 8, "reserved": 16, "free": 24, "used": 32}),
    "nvmlUtilization_t": (8, {"gpu": 0, "memory": 4}),
    "nvmlProcessInfo_v1_t": (16, {"pid": 0, "usedGpuMemory": 8}),
    "nvmlProcessInfo_v2_t": (24, {"pid": 0, "usedGpuMemory": 8, "gpuInstanceId": 16}),
    "nvmlProcessInfo_t": (24, {"pid": 0, "usedGpuMemory": 8, "gpuInstanceId": 16}),
    "nvmlProcessUtilizationSample_t": (32, {"pid": 0, "timeStamp": 8, "smUtil": 16}),
    "nvmlProcessUtilizationInfo_v1_t": (40, {"timeStamp": 0, "pid": 8, "smUtil": 12}),
    "nvmlProcessesUtilizationInfo_t": (24, {"version": 0, "processSamplesCount": 4, "lastSeenTimeStamp": 8, "procUtilArray": 16}),
    "nvmlProcessDetail_v1_t": (32, {"pid": 0, "usedGpuMemory": 8}),
    "nvmlProcessDetailList_t": (24, {"version": 0, "mode": 4, "numProcArrayEntries": 8, "procArray": 16}),
}  # fmt: skip
VERSIONS = {
    "nvmlMemory_v2": 0x02000028,
    "nvmlProcessesUtilizationInfo_v1": 0x01000018,
    "nvmlProcessDetailList_v1": 0x01000018,
}

# Exported by drivers since 460, with nvmlProcessInfo_v2_t, and declared by no header.
ONLY_IN_DRIVERS = {f"nvmlDeviceGet{kind}RunningProcesses_v2" for kind in ("Compute", "Graphics", "MPSCompute")}
# Refused whatever their arguments are: no prototype is needed.
ONLY_IN_DRIVERS |= {"nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1"}


def typed_pointers() -> dict[str, str]:
    """Of each exported name of the driver, the typed pointer of the CUDA version in which it got its present form."""
    found = {}
    for symbol, name, since in re.findall(r'^API(?:_PLAIN)?\((\w+), "(\w+)", (\d+),', API, re.MULTILINE):
        found[symbol] = f"PFN_{name}_v{since}"
    rows = re.findall(r'^API_TS\((\w+), "(\w+)", (\d+), (\w+), (\d+),', API, re.MULTILINE)
    for symbol, name, since, suffix, since_threads in rows:
        found[symbol] = f"PFN_{name}_v{since}"
        found[symbol + suffix] = f"PFN_{name}_v{since_threads}{suffix}"
    return found


def compile_and_run(body: str) -> str:
    with tempfile.TemporaryDirectory(prefix="tessera-abi-") as folder:
        source, program = Path(folder, "abi.c"), Path(folder, "abi")
        source.write_text(PREAMBLE + body)
        command = [COMPILER, "-std=gnu11", "-Wno-deprecated-declarations", "-isystem", str(HEADERS), str(source), "-o", str(program)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[-4000:])
        return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


class Signatures(unittest.TestCase):
    def test_each_hook_has_the_type_of_its_name_and_version(self) -> None:
        known = typed_pointers()
        typed = {name: known[name] for name in sorted(HOOKS) if known.get(name, "") in TYPEDEFS and name in known}
        lines = [
            f'_Static_assert(__builtin_types_compatible_p(__typeof__(&{name}), {pointer}), "{name} is no {pointer}");'
            for name, pointer in typed.items()
        ]
        self.assertEqual(HOOKS - typed.keys() - NEWER, set(), "without a typed pointer")
        compile_and_run("\n".join(lines) + "\nint main(void) { return 0; }\n")

    def test_a_wrong_type_is_seen(self) -> None:
        """The control: the version before has another type."""
        with self.assertRaisesRegex(AssertionError, "another"):
            compile_and_run(
                "_Static_assert(__builtin_types_compatible_p(__typeof__(&cuMemAlloc_v2), PFN_cuMemAlloc_v2000),"
                ' "another");\nint main(void) { return 0; }\n'
            )

    def test_each_hook_of_nvml_is_a_function_of_its_header(self) -> None:
        uses = "\n".join(f"(void)sizeof(__typeof__(&{name}));" for name in sorted(NVML_HOOKS - ONLY_IN_DRIVERS))
        compile_and_run(f"int main(void) {{ {uses} return 0; }}\n")


class Layouts(unittest.TestCase):
    def test_structs_are_where_the_library_expects_them(self) -> None:
        prints = []
        for name, (_, fields) in PINNED.items():
            prints.append(f'printf("{name} %zu\\n", sizeof({name}));')
            prints += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for field in fields]
        prints += [f'printf("{name} %u\\n", (unsigned){name});' for name in VERSIONS]
        rows = dict(line.split() for line in compile_and_run(f"int main(void) {{ {' '.join(prints)} }}\n").splitlines())
        wanted = {name: str(size) for name, (size, _) in PINNED.items()} | {
            f"{name}.{field}": str(at) for name, (_, fields) in PINNED.items() for field, at in fields.items()
        }
        self.maxDiff = None
        self.assertEqual(rows, wanted | {name: str(value) for name, value in VERSIONS.items()})


if __name__ == "__main__":
    unittest.main()
