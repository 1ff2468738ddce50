#include <string.h>

#include "impl.h"
#include "launch.h"
#include "module.h"
#include "work.h"

#define WAVE_NS 5000ull /* default cost of one wave of blocks: a short memory-bound kernel */

static bool registered_cost(struct CUfunc_st *function, uint64_t *cost_ns) {
  struct sim_node *node = driver.node.node;
  /* partner: the add in sim_set_kernel_cost */
  uint32_t generation = __atomic_load_n(&node->kernel_cost_generation, __ATOMIC_ACQUIRE);
  if (generation == 0) return false;
  if (function->cost_generation != generation) {
    function->cost_known = sim_kernel_cost(&driver.node, function->kernel->name, &function->cost_ns);
    function->cost_generation = generation;
  }
  *cost_ns = function->cost_ns;
  return function->cost_known;
}

uint64_t launch_cost(struct CUfunc_st *function, const struct sim_card *card, uint64_t threads, const void *first_param) {
  uint64_t room = (uint64_t)card->model.sms * card->model.threads_per_sm;
  uint64_t cost_ns;
  if (registered_cost(function, &cost_ns)) return cost_ns;
  if (first_param && strncmp(function->kernel->name, "tessera_busy", 12) == 0) {
    memcpy(&cost_ns, first_param, sizeof cost_ns);
    return cost_ns;
  }
  return (threads + room - 1) / room * WAVE_NS;
}

/* Where the first parameter's bytes are, if it has 8 of them. */
static const void *first_param(const struct launch *launch) {
  const struct image_kernel *kernel = launch->function->kernel;
  if (kernel->param_count == 0 || kernel->size[0] < 8) return NULL;
  if (launch->params) return launch->params[0];
  for (void **extra = launch->extra; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) return extra[1];
  }
  return NULL;
}

static CUresult check(const struct launch *launch, const struct sim_card *card) {
  const struct image_kernel *kernel = launch->function->kernel;
  uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
  uint64_t shared = (uint64_t)launch->shared + kernel->shared;
  uint64_t limit = card->model.shared_per_block;
  if (launch->function->shared_limit > 0) limit = (uint64_t)launch->function->shared_limit + kernel->shared;
  if (launch->grid[0] == 0 || launch->grid[1] == 0 || launch->grid[2] == 0 || threads == 0) return CUDA_ERROR_INVALID_VALUE;
  if (launch->grid[0] > 2147483647u || launch->grid[1] > 65535u || launch->grid[2] > 65535u) return CUDA_ERROR_INVALID_VALUE;
  if (threads > 1024 || launch->block[0] > 1024 || launch->block[1] > 1024 || launch->block[2] > 64) return CUDA_ERROR_INVALID_VALUE;
  if (shared > limit) return CUDA_ERROR_INVALID_VALUE;
  if (kernel->param_count > 0 && !launch->params && !launch->extra) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

struct CUctx_st *function_context(CUfunction function) { return function->ctx; }

CUresult launch_describe(const struct launch *launch, struct CUctx_st *ctx, struct work *work) {
  const struct sim_card *card = card_of(ctx);
  uint64_t threads, blocks;
  CUresult result;

  if (!handle_is(launch->function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (launch->function->ctx && launch->function->ctx != ctx) return CUDA_ERROR_INVALID_CONTEXT;
  result = check(launch, card);
  if (result != CUDA_SUCCESS) return result;
  blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  threads = blocks * launch->block[0] * launch->block[1] * launch->block[2];
  if (launch->cooperative && blocks > (uint64_t)card->model.sms * card->model.blocks_per_sm) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  *work = (struct work){.kind = WORK_KERNEL, .engine = SIM_OP_KERNEL, .launch = *launch,
                        .cost_ns = launch_cost(launch->function, card, threads, first_param(launch))};
  return CUDA_SUCCESS;
}

static CUresult launch_kernel(const struct launch *launch) {
  struct CUstream_st *stream;
  struct work work;
  CUresult result = need_stream(launch->stream, &stream);
  if (result == CUDA_SUCCESS) result = launch_describe(launch, stream->ctx, &work);
  return result == CUDA_SUCCESS ? work_submit(stream, &work, NULL) : result;
}

CUresult impl_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void **params, void **extra) {
  struct launch launch = {.function = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .stream = stream,
                          .params = params, .extra = extra};
  if (params && extra) return CUDA_ERROR_INVALID_VALUE;
  return launch_kernel(&launch);
}

CUresult impl_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
  struct launch launch;
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  launch = (struct launch){.function = f,
                           .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                           .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                           .shared = config->sharedMemBytes,
                           .stream = config->hStream,
                           .params = params,
                           .extra = extra};
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = config->attrs[i].value.cooperative != 0;
  }
  return launch_kernel(&launch);
}

CUresult impl_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                        unsigned bz, unsigned shared, CUstream stream, void **params) {
  struct launch launch = {.function = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .stream = stream,
                          .params = params, .cooperative = true};
  return launch_kernel(&launch);
}

/* One kernel for each of several cards; each waits for the others only on hardware. */
CUresult impl_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags) {
  CUresult result = list && count && flags <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
    if (!handle_is(list[i].hStream, KIND_STREAM)) result = CUDA_ERROR_INVALID_HANDLE;
    for (unsigned j = 0; j < i && result == CUDA_SUCCESS; j++) {
      if (list[i].hStream->ctx->card == list[j].hStream->ctx->card) result = CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
    const CUDA_LAUNCH_PARAMS *p = &list[i];
    struct launch launch = {.function = p->function, .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                            .block = {p->blockDimX, p->blockDimY, p->blockDimZ}, .shared = p->sharedMemBytes,
                            .stream = p->hStream, .params = p->kernelParams, .cooperative = true};
    result = launch_kernel(&launch);
  }
  return result;
}
