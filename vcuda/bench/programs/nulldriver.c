/* A driver that does nothing, at once: what remains of a launch through the limiting library is the library's own time. One card. */
#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <string.h>

#define NOTHING                \
    {                          \
        return CUDA_SUCCESS;   \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

static char something; /* any handle */

CUresult cuInit(unsigned int flags) NOTHING
CUresult cuCtxSetCurrent(CUcontext context) NOTHING
CUresult cuEventRecord(CUevent event, CUstream stream) NOTHING
CUresult cuEventQuery(CUevent event) NOTHING
CUresult cuEventDestroy_v2(CUevent event) NOTHING
CUresult cuMemFree_v2(CUdeviceptr pointer) NOTHING
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) NOTHING
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) NOTHING
CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device) NOTHING
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                        unsigned int shared, CUstream stream, void **params, void **extra) NOTHING

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)(void *)&something;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = (CUcontext)(void *)&something;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    memset(uuid->bytes, 0, sizeof uuid->bytes);
    uuid->bytes[15] = 42;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    *event = (CUevent)(void *)&something;
    return CUDA_SUCCESS;
}

/* 2 us: so short a kernel is sampled once in 64 launches. */
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    *ms = 0.002f;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    *name = "nothing";
    return CUDA_SUCCESS;
}
