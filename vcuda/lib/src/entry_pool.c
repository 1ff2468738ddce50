/* Stream-ordered memory and pools. */
#include "charge.h"
#include "pool.h"

/* Pool memory that grew past the limit: hand the block back, let the pool shrink, and say so. */
static CUresult undo(CUmemoryPool pool, CUdeviceptr dptr, CUstream stream) {
    DRIVER(cuMemFreeAsync, dptr, stream);
    DRIVER(cuMemPoolTrimTo, pool, 0);
    pool_freed();
    pool_refresh(false);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream stream) {
    struct pool_charge charge;
    int device;
    CUmemoryPool pool = pool_current(&device);
    CUresult result = pool_begin(&charge, pool, device, bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocAsync, dptr, bytesize, stream);
    return pool_end(&charge) || result != CUDA_SUCCESS ? result : undo(pool, *dptr, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream stream) {
    struct pool_charge charge;
    int device;
    CUmemoryPool pool = pool_current(&device);
    CUresult result = pool_begin(&charge, pool, device, bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocAsync_ptsz, dptr, bytesize, stream);
    return pool_end(&charge) || result != CUDA_SUCCESS ? result : undo(pool, *dptr, stream ? stream : CU_STREAM_PER_THREAD);
}

static int device_of(CUmemoryPool pool) {
    int device = pool_device(pool);
    return device == DEVICE_UNKNOWN ? device_current() : device;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream) {
    struct pool_charge charge;
    CUresult result = pool_begin(&charge, pool, device_of(pool), bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocFromPoolAsync, dptr, bytesize, pool, stream);
    return pool_end(&charge) || result != CUDA_SUCCESS ? result : undo(pool, *dptr, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream) {
    struct pool_charge charge;
    CUresult result = pool_begin(&charge, pool, device_of(pool), bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocFromPoolAsync_ptsz, dptr, bytesize, pool, stream);
    return pool_end(&charge) || result != CUDA_SUCCESS ? result : undo(pool, *dptr, stream ? stream : CU_STREAM_PER_THREAD);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream) {
    struct block block;
    bool known = charge_free_begin(dptr, &block);
    CUresult result = charge_free_end(&block, known, DRIVER(cuMemFreeAsync, dptr, stream));
    pool_freed();
    return result;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream) {
    struct block block;
    bool known = charge_free_begin(dptr, &block);
    CUresult result = charge_free_end(&block, known, DRIVER(cuMemFreeAsync_ptsz, dptr, stream));
    pool_freed();
    return result;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    CUresult result = DRIVER(cuMemPoolCreate, pool, props);
    if (result == CUDA_SUCCESS && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        pool_made(*pool, device_index(props->location.id));
    return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    CUresult result = DRIVER(cuMemPoolDestroy, pool);
    if (result == CUDA_SUCCESS)
        pool_gone(pool);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    CUresult result = DRIVER(cuMemPoolTrimTo, pool, keep);
    pool_freed();
    pool_refresh(false);
    return result;
}
