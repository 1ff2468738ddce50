/* Stream-ordered memory. First form: the bytes are taken at the call and given back when the stream has come to the free. */
#include "heap.h"
#include "impl.h"
#include "transfer.h"

CUresult impl_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle) {
  struct CUstream_st *stream;
  uint64_t address;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  result = memory_error(heap_alloc(&driver.node, stream->ctx, stream->ctx->card, SIM_POOL, bytes, &address));
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult impl_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  return memory_error(heap_free(&driver.node, pointer));
}
