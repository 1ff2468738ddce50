#include "impl.h"

CUresult impl_cuStreamGetPriority(CUstream handle, int *priority) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetFlags(CUstream handle, unsigned *flags) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCtx(CUstream handle, CUcontext *ctx) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!ctx) return CUDA_ERROR_INVALID_VALUE;
  *ctx = stream->ctx;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green) {
  if (green) *green = NULL;
  return impl_cuStreamGetCtx(handle, ctx);
}

CUresult impl_cuStreamGetId(CUstream handle, unsigned long long *id) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetDevice(CUstream handle, CUdevice *device) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->ctx->device;
  return CUDA_SUCCESS;
}
