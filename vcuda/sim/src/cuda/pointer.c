/* What a program may ask about a pointer. */
#include "heap.h"
#include "impl.h"
#include "ipc.h"

static CUcontext owner_of(const struct range *range) {
  return handle_is(range->owner, KIND_CONTEXT) ? (CUcontext)(uintptr_t)range->owner : NULL;
}

static int device_of(const struct range *range) {
  for (int i = 0; i < driver.count; i++) {
    if (driver.visible[i] == range->card) return i;
  }
  return CU_DEVICE_INVALID;
}

static CUresult answer(void *out, CUpointer_attribute attribute, const struct range *range, CUdeviceptr pointer) {
  bool device = !range->host;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)out = owner_of(range); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)out = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)out = pointer; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (device && range->class != SIM_MANAGED) return CUDA_ERROR_INVALID_VALUE;
      *(CUdeviceptr *)out = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *(unsigned long long *)out = range->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)out = device && range->class == SIM_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = device_of(range); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(unsigned *)out = range->class == SIM_LINEAR && device && !ipc_is_opened(range->base);
      break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *(unsigned *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)out = range->base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)out = range->size; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)out = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *(CUmemoryPool *)out = handle_is(range->owner, KIND_POOL) ? (CUmemoryPool)(uintptr_t)range->owner : NULL;
      break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult impl_cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  struct range range;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!heap_find(pointer, &range)) return CUDA_ERROR_INVALID_VALUE;
  return answer(out, attribute, &range, pointer);
}

/* For a pointer that the driver does not know, every answer is empty and the call succeeds. */
CUresult impl_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr pointer) {
  struct range range;
  bool known = heap_find(pointer, &range);
  if (!attributes || !out) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    if (known && answer(out[i], attributes[i], &range, pointer) == CUDA_SUCCESS) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out[i] = CU_DEVICE_INVALID; break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)out[i] = 0; break;
      default: *(unsigned *)out[i] = 0; break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult impl_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  struct range range;
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  return heap_find(pointer, &range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Managed memory is one memory here: advice and prefetching are checked and change nothing. */
static CUresult managed_range(CUdeviceptr pointer, size_t bytes) {
  struct range range;
  if (bytes == 0 || !heap_find(pointer, &range) || range.class != SIM_MANAGED || range.host) return CUDA_ERROR_INVALID_VALUE;
  return pointer + bytes <= range.base + range.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device) {
  (void)advice;
  (void)device;
  return managed_range(pointer, bytes);
}
CUresult impl_cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  (void)location;
  return impl_cuMemAdvise(pointer, bytes, advice, 0);
}
CUresult impl_cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream handle) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  (void)device;
  return result == CUDA_SUCCESS ? managed_range(pointer, bytes) : result;
}
CUresult impl_cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream) {
  (void)location;
  return flags ? CUDA_ERROR_INVALID_VALUE : impl_cuMemPrefetchAsync(pointer, bytes, 0, stream);
}
CUresult impl_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes, unsigned flags) {
  struct CUstream_st *stream;
  struct range range;
  CUresult result = need_stream(handle, &stream);
  (void)bytes;
  (void)flags;
  if (result != CUDA_SUCCESS) return result;
  return heap_find(pointer, &range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
