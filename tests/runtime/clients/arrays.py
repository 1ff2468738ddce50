"""CuPy under a limit: its own out of memory, a kernel that NVRTC compiles, bytes there and back; prints what a test compares."""

from __future__ import annotations

import json

import cupy
import numpy

GIB = 1 << 30

free, total = cupy.cuda.runtime.memGetInfo()
refusal = ""
try:
    cupy.empty(total, dtype=cupy.uint8)
except cupy.cuda.memory.OutOfMemoryError as error:
    refusal = str(error)

numbers = numpy.arange(1 << 20)
same = bool((cupy.asnumpy(cupy.asarray(numbers)) == numbers).all())

double = cupy.RawKernel('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }', "twice")
double((1,), (32,), (cupy.empty(32, dtype=cupy.float32),))
cupy.cuda.Device().synchronize()

pool = cupy.get_default_memory_pool()
kept = cupy.empty(GIB, dtype=cupy.uint8)
held = pool.total_bytes()
del kept
pool.free_all_blocks()
print(
    json.dumps(
        {
            "total": total,
            "free": free,
            "refusal": refusal,
            "same": same,
            "held": held,
            "freed": cupy.cuda.runtime.memGetInfo()[0],
        }
    )
)
