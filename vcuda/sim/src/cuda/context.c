#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "impl.h"

enum { STACK = 64 };
/* Contexts bound to this thread; a destroyed one stays as a dead entry that answers CONTEXT_IS_DESTROYED. */
static _Thread_local struct CUctx_st *stack[STACK];
static _Thread_local int depth;

static bool live(const struct CUctx_st *ctx) { return handle_is(ctx, KIND_CONTEXT); }

CUresult need_context(struct CUctx_st **ctx) {
  if (depth == 0 || !stack[depth - 1]) return CUDA_ERROR_INVALID_CONTEXT;
  *ctx = stack[depth - 1];
  if (!live(*ctx)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return card_health((*ctx)->card);
}

static CUresult make_context(CUdevice device, unsigned flags, bool primary, struct CUctx_st **out) {
  struct CUctx_st *ctx = handle_new(KIND_CONTEXT, sizeof *ctx);
  uint32_t card = driver.visible[device];
  CUresult result = card_health(card);

  if (!ctx) return CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS && sim_context_begin(&driver.node, card) < 0) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    handle_free(ctx);
    return result;
  }
  sim_lock(&driver.node);
  ctx->sim = sim_ctx_new(driver.node.node, driver.node.proc, card);
  sim_unlock(&driver.node);
  if (ctx->sim == SIM_NONE) {
    sim_context_end(&driver.node, card);
    handle_free(ctx);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ctx->card = card;
  ctx->device = device;
  ctx->flags = flags;
  ctx->primary = primary;
  ctx->id = __atomic_add_fetch(&driver.next_id, 1, __ATOMIC_RELAXED);
  limits_begin(ctx);
  ctx->shared = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  *out = ctx;
  return CUDA_SUCCESS;
}

static void end_context(struct CUctx_st *ctx) {
  while (ctx->streams) {
    capture_abandon(ctx->streams);
    stream_drop(ctx->streams);
  }
  modules_end(ctx);
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  sim_ctx_free(driver.node.node, ctx->sim);
  sim_unlock(&driver.node);
  memory_end(ctx);
  limits_end(ctx);
  sim_context_end(&driver.node, ctx->card);
  handle_free(ctx);
}

CUresult impl_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&driver.lock);
  if (!driver.primary[device]) result = make_context(device, driver.primary_flags[device], true, &driver.primary[device]);
  if (result == CUDA_SUCCESS) {
    driver.primary[device]->retained++;
    *out = driver.primary[device];
  }
  pthread_mutex_unlock(&driver.lock);
  return result;
}

static CUresult drop_primary(CUdevice device, bool all) {
  struct sim_card *card;
  struct CUctx_st *ended = NULL;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&driver.lock);
  if (!driver.primary[device]) {
    result = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  } else if (all || --driver.primary[device]->retained == 0) {
    ended = driver.primary[device];
    driver.primary[device] = NULL;
  }
  pthread_mutex_unlock(&driver.lock);
  if (ended) end_context(ended);
  return result;
}

CUresult impl_cuDevicePrimaryCtxRelease_v2(CUdevice device) { return drop_primary(device, false); }
CUresult impl_cuDevicePrimaryCtxReset_v2(CUdevice device) { return drop_primary(device, true); }

CUresult impl_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&driver.lock);
  driver.primary_flags[device] = flags;
  if (driver.primary[device]) driver.primary[device]->flags = flags;
  pthread_mutex_unlock(&driver.lock);
  return CUDA_SUCCESS;
}

CUresult impl_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = driver.primary_flags[device];
  *active = driver.primary[device] != NULL;
  return CUDA_SUCCESS;
}

static CUresult push(struct CUctx_st *ctx) {
  if (depth == STACK) return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = ctx;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) {
  struct sim_card *card;
  struct CUctx_st *ctx;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out || (flags & ~(unsigned)CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  result = make_context(device, flags, false, &ctx);
  if (result != CUDA_SUCCESS) return result;
  *out = ctx;
  return push(ctx);
}

CUresult impl_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device) {
  if (affinity || count) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* needs MPS */
  return impl_cuCtxCreate_v2(out, flags, device);
}

CUresult impl_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice device) {
  if (params && params->execAffinityParams) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  if (params && params->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
  return impl_cuCtxCreate_v2(out, flags, device);
}

CUresult impl_cuCtxDestroy_v2(CUcontext ctx) {
  if (!live(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (ctx->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth > 0 && stack[depth - 1] == ctx) depth--;
  end_context(ctx);
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxPushCurrent_v2(CUcontext ctx) { return live(ctx) ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT; }

CUresult impl_cuCtxPopCurrent_v2(CUcontext *out) {
  if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  depth--;
  if (out) *out = stack[depth];
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetCurrent(CUcontext ctx) {
  if (ctx && !live(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth > 0) depth--;
  return ctx ? push(ctx) : CUDA_SUCCESS;
}

CUresult impl_cuCtxGetCurrent(CUcontext *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = depth > 0 ? stack[depth - 1] : NULL;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetDevice(CUdevice *device) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ctx->device;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetFlags(unsigned *flags) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = ctx->flags;
  return CUDA_SUCCESS;
}

static CUresult given_or_current(CUcontext given, struct CUctx_st **ctx) {
  if (!given) return need_context(ctx);
  *ctx = given;
  return live(given) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult impl_cuCtxGetId(CUcontext given, unsigned long long *id) {
  struct CUctx_st *ctx;
  CUresult result = given_or_current(given, &ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = ctx->id;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetApiVersion(CUcontext given, unsigned *version) {
  struct CUctx_st *ctx;
  CUresult result = given_or_current(given, &ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSynchronize(void) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  return result == CUDA_SUCCESS ? wait_context(ctx) : result;
}

/* The same two for a context that need not be the present one; NULL means that. */
static CUresult named_context(CUcontext named, struct CUctx_st **ctx) {
  if (!named) return need_context(ctx);
  *ctx = named;
  return handle_is(named, KIND_CONTEXT) ? card_health(named->card) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult impl_cuCtxGetDevice_v2(CUdevice *device, CUcontext named) {
  struct CUctx_st *ctx;
  CUresult result = named_context(named, &ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ctx->device;
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSynchronize_v2(CUcontext named) {
  struct CUctx_st *ctx;
  CUresult result = named_context(named, &ctx);
  return result == CUDA_SUCCESS ? wait_context(ctx) : result;
}
