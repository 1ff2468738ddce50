/* Page-locked host memory: allocated here or registered by the program. It costs no card memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "heap.h"
#include "impl.h"
#include "transfer.h"

enum { ALLOCATED = 1, REGISTERED = 2 };

static uint64_t pages(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

CUresult impl_cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  struct range range = {.size = bytes, .host = ALLOCATED, .flags = flags};
  struct CUctx_st *ctx;
  void *memory;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *out = NULL;
    return CUDA_SUCCESS;
  }
  if (bytes > (1ull << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  memory = mmap(NULL, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  range.base = (uint64_t)(uintptr_t)memory;
  range.owner = ctx;
  range.card = ctx->card;
  if (heap_note(&range) < 0) {
    munmap(memory, pages(bytes));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemAllocHost_v2(void **out, size_t bytes) { return impl_cuMemHostAlloc(out, bytes, 0); }

static CUresult forget(const void *memory, int how, struct range *range) {
  if (!heap_find((uint64_t)(uintptr_t)memory, range) || range->host != how || range->base != (uint64_t)(uintptr_t)memory) {
    return how == REGISTERED ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  }
  return heap_forget(range->base, range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemFreeHost(void *memory) {
  struct range range;
  CUresult result;
  if (!memory) return CUDA_SUCCESS;
  result = forget(memory, ALLOCATED, &range);
  if (result == CUDA_SUCCESS) munmap(memory, pages(range.size));
  return result;
}

CUresult impl_cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
  struct range range = {.base = (uint64_t)(uintptr_t)memory, .size = bytes, .host = REGISTERED, .flags = flags}, other;
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!memory || bytes == 0 || (flags & ~15u)) return CUDA_ERROR_INVALID_VALUE;
  if (heap_find(range.base, &other) || heap_find(range.base + bytes - 1, &other)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  range.owner = ctx;
  range.card = ctx->card;
  return memory_error(heap_note(&range));
}

CUresult impl_cuMemHostUnregister(void *memory) {
  struct range range;
  return forget(memory, REGISTERED, &range);
}

CUresult impl_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned flags) {
  struct range range;
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  if (!heap_find((uint64_t)(uintptr_t)memory, &range) || !range.host) return CUDA_ERROR_INVALID_VALUE;
  *out = (uint64_t)(uintptr_t)memory;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemHostGetFlags(unsigned *flags, void *memory) {
  struct range range;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  if (!heap_find((uint64_t)(uintptr_t)memory, &range) || range.host != ALLOCATED) return CUDA_ERROR_INVALID_VALUE;
  *flags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP; /* with unified addressing all of it is mapped */
  return CUDA_SUCCESS;
}
