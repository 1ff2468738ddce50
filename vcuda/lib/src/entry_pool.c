/* Stream-ordered memory and pools. */
#include "charge.h"
#include "gate.h"
#include "graphmem.h"

/* Room in `pool`, or in the current one. A captured allocation costs nothing: the graph pays when it is launched. */
static CUresult begin(struct pool_charge *charge, CUmemoryPool *pool, uint64_t bytes, CUstream stream) {
    int device = DEVICE_UNKNOWN;
    if (!gate_is_captured(stream) && *pool)
        device = pool_device(*pool);
    else if (!gate_is_captured(stream))
        *pool = pool_current(&device);
    return pool_begin(charge, *pool, device, bytes);
}

/* Memory that grew past the limit: hand the block back, let the pool shrink, and say so. */
static CUresult end(struct pool_charge *charge, CUresult result, CUmemoryPool pool, const CUdeviceptr *dptr, CUstream stream) {
    if (pool_end(charge) || result != CUDA_SUCCESS)
        return result;
    DRIVER(cuMemFreeAsync, *dptr, stream);
    DRIVER(cuMemPoolTrimTo, pool, 0);
    pool_freed();
    pool_refresh(false);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* An allocation in stream order: name, flavour, pool (NULL: the current one), parameters, arguments. */
#define ALLOCATES(name, per_thread, which, parameters, ...)                                \
    CUresult name parameters {                                                             \
        struct pool_charge charge;                                                         \
        CUmemoryPool from = which;                                                         \
        CUstream in = gate_stream(stream, per_thread);                                     \
        CUresult result = begin(&charge, &from, bytes, in);                                \
        return result ? result : end(&charge, DRIVER(name, __VA_ARGS__), from, dptr, in);  \
    }

ALLOCATES(cuMemAllocAsync, false, NULL, (CUdeviceptr *dptr, size_t bytes, CUstream stream), dptr, bytes, stream)
ALLOCATES(cuMemAllocAsync_ptsz, true, NULL, (CUdeviceptr *dptr, size_t bytes, CUstream stream), dptr, bytes, stream)
ALLOCATES(cuMemAllocFromPoolAsync, false, pool, (CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream), dptr, bytes, pool,
          stream)
ALLOCATES(cuMemAllocFromPoolAsync_ptsz, true, pool, (CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream), dptr, bytes, pool,
          stream)

#define FREES_ASYNC(name)                                                                           \
    CUresult name(CUdeviceptr dptr, CUstream stream) {                                              \
        struct block block;                                                                         \
        bool known = charge_free_begin(dptr, &block);                                               \
        CUresult result = charge_free_end(&block, known, DRIVER(name, dptr, stream));               \
        pool_freed();                                                                               \
        return result;                                                                              \
    }

FREES_ASYNC(cuMemFreeAsync)
FREES_ASYNC(cuMemFreeAsync_ptsz)

/* ---- memory of graphs ---- */

static CUresult upload(CUgraphExec exec, CUstream stream) {
    struct graphmem memory;
    CUresult result = graphmem_begin(&memory, exec, stream);
    return result ? result : graphmem_end(&memory, DRIVER(cuGraphUpload, exec, stream));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return upload(exec, gate_stream(stream, false));
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return upload(exec, gate_stream(stream, true));
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    CUresult result = DRIVER(cuDeviceGraphMemTrim, device);
    graphmem_trimmed();
    pool_freed();
    pool_refresh(false);
    return result;
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    CUresult result = DRIVER(cuMemPoolCreate, pool, props);
    if (result == CUDA_SUCCESS)
        pool_made(*pool, props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_index(props->location.id) : DEVICE_UNKNOWN);
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
