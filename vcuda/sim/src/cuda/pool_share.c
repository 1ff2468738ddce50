/* Pools between processes. */
#include "heap.h"
#include "impl.h"
#include "ipc.h"
#include "pool.h"

/* A descriptor of a pool names the card only: what matters of an imported pool are the pointers that are imported into it. */
CUresult impl_cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (!out || flags || !handle_is(pool, KIND_POOL) || !pool->exportable) return CUDA_ERROR_INVALID_VALUE;
  *(int *)out = sim_share_export_card(&driver.node, pool->card);
  return *(int *)out < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult impl_cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *shared, CUmemAllocationHandleType type, unsigned long long flags) {
  uint32_t card;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (!out || flags || sim_share_card_of_fd(&driver.node, (int)(intptr_t)shared, &card) < 0) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < driver.count; i++) {
    if (driver.visible[i] != card) continue;
    *out = pool_make(i, 0);
    if (*out) (*out)->imported = true;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult impl_cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr pointer) {
  struct range range;
  if (!out || !heap_find(pointer, &range) || !handle_is(range.owner, KIND_POOL)) return CUDA_ERROR_INVALID_VALUE;
  if (!((CUmemoryPool)(uintptr_t)range.owner)->exportable) return CUDA_ERROR_INVALID_VALUE;
  return ipc_export_pointer(out, pointer);
}

/* The memory belongs to the imported pool; freed here by cuMemFree or cuMemFreeAsync, which lets go of it in this process only. */
CUresult impl_cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
  if (!out || !data || !handle_is(pool, KIND_POOL) || !pool->imported) return CUDA_ERROR_INVALID_VALUE;
  return ipc_import_pointer(out, pool, pool->card, data);
}
