#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "impl.h"
#include "private.h"

enum { STACK = 64 };
/* Contexts bound to this thread; a destroyed one stays as a dead entry that answers CONTEXT_IS_DESTROYED. */
static _Thread_local struct CUctx_st *stack[STACK];
static _Thread_local int depth;

/* Held over a primary context's whole beginning and end, before the driver's lock: its handle is used again, so nobody may begin what another
 * still ends. Recursive, as what the runtime keeps with a context may release it while it ends. */
static pthread_mutex_t primary_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static bool live(const struct CUctx_st *ctx) { return handle_is(ctx, KIND_CONTEXT); }

CUresult need_context(struct CUctx_st **ctx) {
  if (depth == 0 || !stack[depth - 1]) return CUDA_ERROR_INVALID_CONTEXT;
  *ctx = stack[depth - 1];
  if (!live(*ctx)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return card_health((*ctx)->card);
}

/* The context's place on its card. */
static CUresult take_place(uint32_t card, uint32_t *sim) {
  CUresult result = card_health(card);
  if (result != CUDA_SUCCESS) return result;
  if (sim_context_begin(&driver.node, card) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  sim_lock(&driver.node);
  *sim = sim_ctx_new(driver.node.node, driver.node.proc, card);
  sim_unlock(&driver.node);
  if (*sim != SIM_NONE) return CUDA_SUCCESS;
  sim_context_end(&driver.node, card);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult begin_context(struct CUctx_st *ctx, CUdevice device, unsigned flags, bool primary) {
  uint32_t sim, card = driver.visible[device];
  CUresult result = take_place(card, &sim);
  if (result != CUDA_SUCCESS) return result;
  ctx->sim = sim;
  ctx->card = card;
  ctx->device = device;
  ctx->flags = flags;
  ctx->primary = primary;
  ctx->id = __atomic_add_fetch(&driver.next_id, 1, __ATOMIC_RELAXED);
  limits_begin(ctx);
  ctx->shared = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  ctx->head.kind = KIND_CONTEXT;
  return CUDA_SUCCESS;
}

static CUresult make_context(CUdevice device, unsigned flags, struct CUctx_st **out) {
  struct CUctx_st *ctx = handle_new(KIND_CONTEXT, sizeof *ctx);
  CUresult result = ctx ? begin_context(ctx, device, flags, false) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) *out = ctx;
  else if (ctx) handle_free(ctx);
  return result;
}

static void idle(struct CUctx_st *primary) {
  const struct head head = {.class = KIND_CONTEXT};
  memset(primary, 0, sizeof *primary);
  primary->head = head;
}

static void end_context(struct CUctx_st *ctx) {
  private_end(ctx);
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
  if (ctx->primary) idle(ctx);
  else handle_free(ctx);
}

/* The lock is held. A primary context has the same handle each time it is active; between the times it is no context. */
static struct CUctx_st *primary_of(CUdevice device) {
  struct CUctx_st **ctx = &driver.primary[device];
  if (!*ctx) {
    *ctx = handle_new(KIND_CONTEXT, sizeof **ctx);
    if (*ctx) (*ctx)->head.kind = 0;
  }
  return *ctx;
}

CUresult primary_handle(CUcontext *out, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&driver.lock);
  *out = primary_of(device);
  pthread_mutex_unlock(&driver.lock);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  struct sim_card *card;
  struct CUctx_st *ctx;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&primary_lock);
  pthread_mutex_lock(&driver.lock);
  ctx = primary_of(device);
  if (!ctx) result = CUDA_ERROR_OUT_OF_MEMORY;
  else if (!live(ctx)) result = begin_context(ctx, device, driver.primary_flags[device], true);
  if (result == CUDA_SUCCESS) {
    ctx->retained++;
    *out = ctx;
  }
  pthread_mutex_unlock(&driver.lock);
  pthread_mutex_unlock(&primary_lock);
  return result;
}

static CUresult drop_primary(CUdevice device, bool all) {
  struct sim_card *card;
  struct CUctx_st *ctx, *ended = NULL;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&primary_lock);
  pthread_mutex_lock(&driver.lock);
  ctx = driver.primary[device];
  if (!live(ctx)) result = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  else if (all || --ctx->retained == 0) ended = ctx;
  pthread_mutex_unlock(&driver.lock);
  if (ended) end_context(ended);
  pthread_mutex_unlock(&primary_lock);
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
  if (live(driver.primary[device])) driver.primary[device]->flags = flags;
  pthread_mutex_unlock(&driver.lock);
  return CUDA_SUCCESS;
}

CUresult impl_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = driver.primary_flags[device];
  *active = live(driver.primary[device]);
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
  result = make_context(device, flags, &ctx);
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

/* The runtime makes a primary context the present one before it makes it active. */
static bool known(const struct CUctx_st *ctx) {
  bool primary = false;
  if (!ctx || live(ctx)) return ctx;
  pthread_mutex_lock(&driver.lock);
  for (int device = 0; device < driver.count; device++) primary |= driver.primary[device] == ctx;
  pthread_mutex_unlock(&driver.lock);
  return primary;
}

CUresult impl_cuCtxPushCurrent_v2(CUcontext ctx) { return known(ctx) ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT; }

CUresult impl_cuCtxPopCurrent_v2(CUcontext *out) {
  if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  depth--;
  if (out) *out = stack[depth];
  return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetCurrent(CUcontext ctx) {
  if (ctx && !known(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
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
