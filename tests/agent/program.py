"""A CUDA program for the tests: reads commands from its input, one a line, answers each with a line of JSON.

Standard library only, so that it runs under any account. `--library PATH` names the CUDA library to open; by default
the loader finds it.

    open              init, and a context on the first card
    alloc BYTES       one more allocation            {"ok": bool, "code": int}
    free              gives all of them back
    info              {"free": bytes, "total": bytes}
    launch NS COUNT   COUNT kernels of NS nanoseconds, waits for the last
    busy NS           kernels of NS nanoseconds until the next line of input
"""

import argparse
import ctypes
import json
import os
import select
import sys
from typing import Any

PTX = b""".version 7.0
.target sm_52
.address_size 64
.visible .entry tessera_busy(.param .u64 ns) { ret; }
"""


class Program:
    def __init__(self, library: str) -> None:
        self._cuda = ctypes.CDLL(library)
        self._function = ctypes.c_void_p()
        self._held: list[ctypes.c_uint64] = []

    def open(self) -> dict[str, Any]:
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        codes = [
            self._cuda.cuInit(0),
            self._cuda.cuDeviceGet(ctypes.byref(device), 0),
            self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            self._cuda.cuCtxSetCurrent(context),
            self._cuda.cuModuleLoadData(ctypes.byref(module), PTX),
            self._cuda.cuModuleGetFunction(ctypes.byref(self._function), module, b"tessera_busy"),
        ]
        return {"ok": not any(codes), "codes": codes}

    def alloc(self, size: str) -> dict[str, Any]:
        pointer = ctypes.c_uint64()
        code = self._cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(size)))
        if code == 0:
            self._held.append(pointer)
        return {"ok": code == 0, "code": code}

    def free(self) -> dict[str, Any]:
        codes = [self._cuda.cuMemFree_v2(pointer) for pointer in self._held]
        self._held.clear()
        return {"ok": not any(codes)}

    def info(self) -> dict[str, Any]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return {"ok": code == 0, "free": free.value, "total": total.value}

    def launch(self, duration: str, count: str) -> dict[str, Any]:
        codes = {self._launch(int(duration)) for _ in range(int(count))}
        codes.add(self._cuda.cuCtxSynchronize())
        return {"ok": codes == {0}}

    def busy(self, duration: str) -> dict[str, Any]:
        launches = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            for _ in range(4):
                launches += self._launch(int(duration)) == 0
            self._cuda.cuCtxSynchronize()
        return {"ok": True, "launches": launches}

    def _launch(self, duration: int) -> int:
        argument = ctypes.c_uint64(duration)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        code: int = self._cuda.cuLaunchKernel(self._function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
        return code


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="libcuda.so.1")
    program = Program(parser.parse_args().library)
    answer({"ok": True, "pid": os.getpid()})
    while line := os.read(0, 4096).decode():
        name, *arguments = line.split()
        answer(getattr(program, name)(*arguments))


def answer(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
