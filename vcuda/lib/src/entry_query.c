/* What the program is told about memory. */
#include "claim.h"
#include "context.h"
#include "device.h"
#include "pool.h"
#include "view.h"

static void clip(size_t *free_bytes, size_t *total_bytes) {
    struct region *region = claim_region();
    int device = device_current();
    if (device == DEVICE_UNKNOWN)
        return;
    struct view view = {0};
    if (region && device >= 0) {
        pool_refresh(false);
        context_told(device);
        view = view_of(region, device, *total_bytes, *free_bytes);
    }
    *free_bytes = view.free;
    *total_bytes = view.total;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    size_t unwanted[2];
    free_bytes = free_bytes ? free_bytes : &unwanted[0];
    total_bytes = total_bytes ? total_bytes : &unwanted[1];
    CUresult result = DRIVER(cuMemGetInfo_v2, free_bytes, total_bytes);
    if (result == CUDA_SUCCESS)
        clip(free_bytes, total_bytes);
    return result;
}

static unsigned int narrow(size_t bytes) {
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes; /* the first version of this call has 32-bit sizes */
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes) {
    size_t wide_free, wide_total;
    CUresult result = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (result == CUDA_SUCCESS && free_bytes)
        *free_bytes = narrow(wide_free);
    if (result == CUDA_SUCCESS && total_bytes)
        *total_bytes = narrow(wide_total);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    struct region *region = claim_region();
    CUresult result = DRIVER(cuDeviceTotalMem_v2, bytes, dev);
    int device = result == CUDA_SUCCESS ? device_index(dev) : DEVICE_UNKNOWN;
    if (device != DEVICE_UNKNOWN)
        *bytes = region && device >= 0 ? view_of(region, device, *bytes, 0).total : 0;
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev) {
    size_t wide;
    CUresult result = cuDeviceTotalMem_v2(&wide, dev);
    if (result == CUDA_SUCCESS && bytes)
        *bytes = narrow(wide);
    return result;
}
