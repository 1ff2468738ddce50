"""libcudart of release argv[1]: memory in and out, out of memory and on, streams, a reset; prints what a test compares."""

import ctypes
import json
import sys
from importlib.metadata import files

MIB = 1 << 20
PACKAGES = {"11": "nvidia-cuda-runtime-cu11", "12": "nvidia-cuda-runtime-cu12", "13": "nvidia-cuda-runtime"}

library = next(
    path.locate() for path in files(PACKAGES[sys.argv[1]]) or () if path.name.startswith(f"libcudart.so.{sys.argv[1]}")
)
runtime = ctypes.CDLL(str(library))


def size(number):
    return ctypes.c_size_t(number)


def checked(answer):
    assert answer == 0, answer


def number_of(call, kind=ctypes.c_int):
    value = kind()
    checked(call(ctypes.byref(value)))
    return value.value


def room():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    checked(runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


cards = number_of(runtime.cudaGetDeviceCount)
free, total = room()

here, back = ctypes.create_string_buffer(b"unchanged", MIB), ctypes.create_string_buffer(MIB)
pointer = ctypes.c_void_p()
checked(runtime.cudaMalloc(ctypes.byref(pointer), size(64 * MIB)))
assert room()[0] == free - 64 * MIB
checked(runtime.cudaMemcpy(pointer, here, size(MIB), 1))
checked(runtime.cudaMemcpy(back, pointer, size(MIB), 2))
assert back.raw == here.raw

more = ctypes.c_void_p()
refused = runtime.cudaMalloc(ctypes.byref(more), size(total))
assert runtime.cudaGetLastError() == refused
checked(runtime.cudaFree(pointer))
assert room()[0] == free

stream = ctypes.c_void_p()
checked(runtime.cudaStreamCreate(ctypes.byref(stream)))
checked(runtime.cudaMallocAsync(ctypes.byref(pointer), size(MIB), stream))
checked(runtime.cudaMemsetAsync(pointer, 7, size(MIB), stream))
checked(runtime.cudaMemcpyAsync(back, pointer, size(MIB), 2, stream))
checked(runtime.cudaFreeAsync(pointer, stream))
checked(runtime.cudaStreamSynchronize(stream))
assert back.raw == b"\7" * MIB

checked(runtime.cudaDeviceReset())
checked(runtime.cudaMalloc(ctypes.byref(pointer), size(MIB)))  # the context comes back
json.dump(
    {
        "runtime": number_of(runtime.cudaRuntimeGetVersion),
        "driver": number_of(runtime.cudaDriverGetVersion),
        "cards": cards,
        "total": total,
        "refused": refused,
    },
    sys.stdout,
)
