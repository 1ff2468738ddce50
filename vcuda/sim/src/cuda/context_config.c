/* Settings of the present context. They are kept and answered; but for limits none changes the model of the card. */
#include "heap.h"
#include "impl.h"
#include "transfer.h"

static const size_t defaults[CU_LIMIT_MAX] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

void limits_begin(struct CUctx_st *ctx) {
  for (int i = 0; i < CU_LIMIT_MAX; i++) ctx->limits[i] = defaults[i];
}

void limits_end(struct CUctx_st *ctx) {
  for (int i = 0; i < CU_LIMIT_MAX; i++) sim_discharge(&driver.node, ctx->card, SIM_CONTEXT, ctx->limit_bytes[i]);
}

/* Buffers of printf and the heap of malloc are as large as the limit, stacks there are as many as threads can be resident. What the
 * defaults take is part of the context. The driver may wait for a kernel that needs it; here it is taken at once. */
static uint64_t limit_bytes(const struct sim_card_model *model, CUlimit limit, size_t value) {
  uint64_t above = value > defaults[limit] ? value - defaults[limit] : 0, bytes;
  if (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE) return 0;
  if (limit == CU_LIMIT_STACK_SIZE && __builtin_mul_overflow(above, (uint64_t)model->sms * model->threads_per_sm, &above)) return UINT64_MAX;
  return __builtin_add_overflow(above, HEAP_PAGE - 1, &bytes) ? UINT64_MAX : bytes / HEAP_PAGE * HEAP_PAGE;
}

static CUresult charge_limit(struct CUctx_st *ctx, CUlimit limit, size_t value) {
  uint64_t wanted = limit_bytes(&card_of(ctx)->model, limit, value), *held = &ctx->limit_bytes[limit];
  if (wanted > *held && sim_charge(&driver.node, ctx->card, SIM_CONTEXT, wanted - *held) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (wanted < *held) sim_discharge(&driver.node, ctx->card, SIM_CONTEXT, *held - wanted);
  *held = wanted;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetLimit(CUlimit limit, size_t value) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  result = charge_limit(ctx, limit, value);
  if (result == CUDA_SUCCESS) ctx->limits[limit] = value;
  return result;
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
