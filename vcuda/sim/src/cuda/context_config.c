/* Settings of the present context. They are kept and answered; none changes the model of the card. */
#include "impl.h"

CUresult impl_cuCtxSetLimit(CUlimit limit, size_t value) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  ctx->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetLimit(size_t *value, CUlimit limit) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!value || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = ctx->limits[limit];
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetCacheConfig(CUfunc_cache *config) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = ctx->cache;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetCacheConfig(CUfunc_cache config) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result == CUDA_SUCCESS) ctx->cache = config;
  return result;
}

CUresult impl_cuCtxGetSharedMemConfig(CUsharedconfig *config) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = ctx->shared;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetSharedMemConfig(CUsharedconfig config) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result == CUDA_SUCCESS) ctx->shared = config;
  return result;
}

CUresult impl_cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxResetPersistingL2Cache(void) {
  struct CUctx_st *ctx;
  return need_context(&ctx);
}

/* Peer copies always work between cards of one node; access is remembered nowhere because kernels do no arithmetic. */
CUresult impl_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  struct CUctx_st *ctx;
  int can = 0;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(peer, KIND_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
  result = impl_cuDeviceCanAccessPeer(&can, ctx->device, peer->device);
  return result == CUDA_SUCCESS && !can ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : result;
}

CUresult impl_cuCtxDisablePeerAccess(CUcontext peer) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  return handle_is(peer, KIND_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
