/* Memory between processes: the one that exports it pays, the ones that open it do not, as long as they belong to one claim. */
#include "backing.h"
#include "charge.h"
#include "pool.h"
#include "vmm.h"

/* The block that the driver has opened at `address`. Its card may be another than the current one. */
static struct block opened_block(CUdeviceptr address) {
    CUcontext current = NULL;
    CUdeviceptr base;
    size_t bytes = 0;
    int ordinal = -1;
    DRIVER(cuCtxGetCurrent, &current);
    DRIVER(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    DRIVER(cuMemGetAddressRange_v2, &base, &bytes, address);
    return (struct block){.address = address,
                          .bytes = backing_bytes(bytes),
                          .owner = (uint64_t)(uintptr_t)current,
                          .device = device_index(ordinal),
                          .kind = VCUDA_CLASS_OTHER};
}

/* The driver was asked to open somebody's memory. False: it does not fit, the caller closes it again. */
static bool opened(CUresult result, const CUdeviceptr *address) {
    bool fits = true;
    if (result == CUDA_SUCCESS) {
        struct block block = opened_block(*address);
        fits = charge_import(&block);
        if (fits && block.device >= 0)
            blocks_put(block);
    }
    charge_importing(-1);
    return fits;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    CUresult result = DRIVER(cuIpcGetMemHandle, handle, address);
    if (result == CUDA_SUCCESS)
        charge_exported(address);
    return result;
}

/* A call that opens a block: name, call that closes it again, parameters, arguments. */
#define OPENS(name, closes, parameters, ...)          \
    CUresult name parameters {                        \
        charge_importing(1);                          \
        CUresult result = DRIVER(name, __VA_ARGS__);  \
        if (opened(result, address))                  \
            return result;                            \
        DRIVER(closes, *address);                     \
        return CUDA_ERROR_OUT_OF_MEMORY;              \
    }

OPENS(cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags), address, handle, flags)
OPENS(cuIpcOpenMemHandle, cuIpcCloseMemHandle, (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags), address, handle, flags)
OPENS(cuMemPoolImportPointer, cuMemFree_v2, (CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data), address, pool, data)

FREES(cuIpcCloseMemHandle, address, (CUdeviceptr address), address)

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
    CUresult result = DRIVER(cuMemExportToShareableHandle, out, handle, type, flags);
    if (result == CUDA_SUCCESS)
        vmm_exported(handle);
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type) {
    charge_importing(1);
    CUresult result = DRIVER(cuMemImportFromShareableHandle, handle, shared, type);
    bool fits = result != CUDA_SUCCESS || vmm_imported(*handle);
    charge_importing(-1);
    if (fits)
        return result;
    DRIVER(cuMemRelease, *handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- memory of graphics APIs: whoever imports it pays ---- */

CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d) {
    struct charge charge;
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = charge_begin_on(&charge, device_current(), VCUDA_CLASS_OTHER, d ? d->size : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuImportExternalMemory, memory, d);
    if (result == CUDA_SUCCESS)
        handle = (uintptr_t)*memory;
    return vmm_created(&charge, result, &handle);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
    CUresult result = DRIVER(cuDestroyExternalMemory, memory);
    if (result == CUDA_SUCCESS)
        vmm_released((uintptr_t)memory);
    return result;
}

/* A buffer or array of it, known by its address or handle until it is freed or destroyed. */
static CUresult mapped(CUresult result, CUexternalMemory memory, uint64_t key) {
    if (result == CUDA_SUCCESS && vmm_mapped(key, 1, (uintptr_t)memory))
        blocks_put((struct block){.address = key, .sharing = BLOCK_MAPPED});
    return result;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d) {
    CUresult result = DRIVER(cuExternalMemoryGetMappedBuffer, address, memory, d);
    return mapped(result, memory, result == CUDA_SUCCESS ? *address : 0);
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d) {
    CUresult result = DRIVER(cuExternalMemoryGetMappedMipmappedArray, array, memory, d);
    return mapped(result, memory, result == CUDA_SUCCESS ? (uintptr_t)*array : 0);
}

/* ---- pools ---- */

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address) {
    CUmemoryPool pool = NULL;
    CUresult result = DRIVER(cuMemPoolExportPointer, data, address);
    if (result == CUDA_SUCCESS && DRIVER(cuPointerGetAttribute, &pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == CUDA_SUCCESS)
        pool_exported(pool);
    return result;
}
