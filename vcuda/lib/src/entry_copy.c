/* Copies are not limited, only counted: bytes to the card, from it, and on it. A copy that waits also tells that earlier work is done. */
#include "claim.h"
#include "gate.h"

#include <stddef.h>

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE };

static CUresult counted(CUresult result, enum direction direction, size_t bytes) {
    struct region *region = claim_region();
    int device = region && result == CUDA_SUCCESS ? device_current() : DEVICE_UNKNOWN;
    if (device < 0)
        return result;
    struct vcuda_ledger_device *books = region_device(region, device);
    uint64_t *counters[] = {&books->copy_to_device, &books->copy_to_host, &books->copy_on_device};
    __atomic_fetch_add(counters[direction], bytes, __ATOMIC_RELAXED); /* read by the agent */
    return result;
}

static CUresult waited(CUresult result, enum direction direction, size_t bytes) {
    if (result == CUDA_SUCCESS)
        gate_look();
    return counted(result, direction, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return waited(DRIVER(cuMemcpyHtoD_v2, to, from, bytes), TO_DEVICE, bytes);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes) {
    return waited(DRIVER(cuMemcpyHtoD_v2_ptds, to, from, bytes), TO_DEVICE, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return waited(DRIVER(cuMemcpyDtoH_v2, to, from, bytes), TO_HOST, bytes);
}

CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes) {
    return waited(DRIVER(cuMemcpyDtoH_v2_ptds, to, from, bytes), TO_HOST, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return counted(DRIVER(cuMemcpyDtoD_v2, to, from, bytes), ON_DEVICE, bytes);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return counted(DRIVER(cuMemcpyDtoD_v2_ptds, to, from, bytes), ON_DEVICE, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyHtoDAsync_v2, to, from, bytes, stream), TO_DEVICE, bytes);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyHtoDAsync_v2_ptsz, to, from, bytes, stream), TO_DEVICE, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyDtoHAsync_v2, to, from, bytes, stream), TO_HOST, bytes);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyDtoHAsync_v2_ptsz, to, from, bytes, stream), TO_HOST, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyDtoDAsync_v2, to, from, bytes, stream), ON_DEVICE, bytes);
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return counted(DRIVER(cuMemcpyDtoDAsync_v2_ptsz, to, from, bytes, stream), ON_DEVICE, bytes);
}
