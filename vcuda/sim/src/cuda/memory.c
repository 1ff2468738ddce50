#include <errno.h>

#include "graph_memory.h"
#include "heap.h"
#include "impl.h"
#include "ipc.h"
#include "pool.h"
#include "transfer.h"

CUresult memory_error(int error) {
  if (error == -ENOMEM) return CUDA_ERROR_OUT_OF_MEMORY;
  return error < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void memory_end(struct CUctx_st *ctx) {
  pools_end(ctx);
  ipc_end(ctx);
  heap_free_all(&driver.node, ctx);
}

CUresult impl_cuMemGetInfo_v2(size_t *available, size_t *total) {
  struct CUctx_st *ctx;
  uint64_t used, whole, left;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
  pools_settle(true);
  sim_lock(&driver.node);
  sim_reclaim(&driver.node);
  used = sim_card_used(driver.node.node, ctx->card);
  whole = sim_card_capacity(card_of(ctx));
  left = used < whole ? whole - used : 0;
  if (driver.node.node->walls.high > 0) sim_wall_cap(&driver.node, ctx->card, &whole, &left);
  sim_unlock(&driver.node);
  *total = whole;
  *available = left;
  return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, enum sim_class class) {
  struct CUctx_st *ctx;
  uint64_t address;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  result = memory_error(heap_alloc(&driver.node, ctx, ctx->card, class, bytes, &address));
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult impl_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) { return allocate(out, bytes, SIM_LINEAR); }

/* Rows begin at multiples of the texture alignment. */
CUresult impl_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
  size_t row, bytes;
  CUresult result;
  if (!out || !pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  row = (width + 511) / 512 * 512;
  if (row < width || __builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  result = allocate(out, bytes, SIM_LINEAR);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult impl_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return allocate(out, bytes, SIM_MANAGED);
}

/* As on hardware, freeing waits for the work of the context. */
CUresult impl_cuMemFree_v2(CUdeviceptr pointer) {
  struct CUctx_st *ctx;
  struct CUstream_st *stream;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (pointer == 0) return CUDA_SUCCESS;
  if (ipc_is_opened(pointer)) return CUDA_ERROR_INVALID_VALUE;
  result = wait_context(ctx);
  if (result != CUDA_SUCCESS) return result;
  if (need_stream(NULL, &stream) == CUDA_SUCCESS && graph_memory_free(pointer, stream, &result)) return result;
  return pool_free_now(pointer) ? CUDA_SUCCESS : memory_error(heap_free(&driver.node, pointer));
}

CUresult impl_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
  struct CUctx_st *ctx;
  struct range range;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!heap_find(pointer, &range) || range.host) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range.base;
  if (size) *size = range.size;
  return CUDA_SUCCESS;
}
