"""cuda.bindings: memory in and out, out of memory and on, launches and events; prints what a test compares."""

import ctypes
import json
import sys

import numpy
from cuda.bindings import driver

PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry tessera_busy(.param .u64 ns)\n{ ret; }\n\0"


def checked(answer):
    result, *values = answer
    assert result == driver.CUresult.CUDA_SUCCESS, result
    return values[0] if len(values) == 1 else values


checked(driver.cuInit(0))
device = checked(driver.cuDeviceGet(0))
context = checked(driver.cuDevicePrimaryCtxRetain(device))
checked(driver.cuCtxSetCurrent(context))
free, total = checked(driver.cuMemGetInfo())

numbers = numpy.arange(1 << 20, dtype=numpy.int32)
back = numpy.zeros_like(numbers)
pointer = checked(driver.cuMemAlloc(numbers.nbytes))
checked(driver.cuMemcpyHtoD(pointer, numbers.ctypes.data, numbers.nbytes))
checked(driver.cuMemcpyDtoH(back.ctypes.data, pointer, back.nbytes))
assert (numbers == back).all()

refused, _ = driver.cuMemAlloc(total)
assert refused == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, refused
assert checked(driver.cuGetErrorName(refused)) == b"CUDA_ERROR_OUT_OF_MEMORY"
checked(driver.cuMemFree(pointer))
assert checked(driver.cuMemGetInfo())[0] == free

module = checked(driver.cuModuleLoadData(PTX))
kernel = checked(driver.cuModuleGetFunction(module, b"tessera_busy"))
start, end = checked(driver.cuEventCreate(0)), checked(driver.cuEventCreate(0))
checked(driver.cuEventRecord(start, 0))
checked(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((30_000_000,), (ctypes.c_uint64,)), 0))
checked(driver.cuEventRecord(end, 0))
checked(driver.cuEventSynchronize(end))
json.dump(
    {
        "version": checked(driver.cuDriverGetVersion()),
        "name": checked(driver.cuDeviceGetName(64, device)).split(b"\0")[0].decode(),
        "total": total,
        "free": free,
        "elapsed_ms": checked(driver.cuEventElapsedTime(start, end)),
    },
    sys.stdout,
)
