/* What a program may ask about a function, and the occupancy calculator. */
#include "impl.h"
#include "module.h"

#define WARP 32u
#define REGISTER_UNIT 256u /* registers are given to a warp in units of so many */
#define SHARED_UNIT 128u

static const struct sim_card *card_for(const struct CUfunc_st *function) {
  struct CUctx_st *ctx = function->ctx;
  if (!ctx && need_context(&ctx) != CUDA_SUCCESS) return driver.count ? &driver.node.node->cards[driver.visible[0]] : NULL;
  return card_of(ctx);
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const struct CUfunc_st *function, const struct sim_card *card) {
  const struct image *image = &function->module->image;
  int sm = image->sm ? image->sm : (int)(card->model.cc_major * 10 + card->model.cc_minor);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)function->kernel->shared; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)function->kernel->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = sm; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = (int)(card->model.cc_major * 10 + card->model.cc_minor); break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->shared_limit ? function->shared_limit : (int)card->model.shared_per_block - (int)function->kernel->shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = function->carveout; break;
    default:
      if (attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  return get_attribute(value, attribute, function, card_for(function));
}

static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value, const struct sim_card *card) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || (uint64_t)value + function->kernel->shared > card->model.shared_optin) return CUDA_ERROR_INVALID_VALUE;
      function->shared_limit = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function->carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult impl_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  return set_attribute(function, attribute, value, card_for(function));
}

CUresult impl_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  function->cache = config;
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  (void)config;
  return handle_is(function, KIND_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuFuncGetModule(CUmodule *module, CUfunction function) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  *module = function->module;
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncGetName(const char **name, CUfunction function) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->kernel->name;
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (!offset || index >= function->kernel->param_count) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->kernel->offset[index];
  if (size) *size = function->kernel->size[index];
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult impl_cuFuncLoad(CUfunction function) {
  return handle_is(function, KIND_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Kernels of a library are the same objects, without a context of their own. */
CUresult impl_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(kernel, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  return get_attribute(value, attribute, (CUfunction)kernel, card);
}

CUresult impl_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(kernel, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  return set_attribute((CUfunction)kernel, attribute, value, card);
}

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The published occupancy rules: a multiprocessor holds as many blocks as its slots, threads, registers and shared memory
 * allow. */
static uint32_t blocks_per_sm(const struct sim_card_model *m, const struct image_kernel *kernel, uint32_t threads, uint64_t dynamic) {
  uint32_t warps = (threads + WARP - 1) / WARP;
  uint32_t registers = round_up(kernel->registers * WARP, REGISTER_UNIT) * warps;
  uint64_t shared = kernel->shared + dynamic + (m->cc_major >= 8 ? 1024 : 0);
  uint32_t blocks = least(m->blocks_per_sm, m->threads_per_sm / (warps * WARP));
  if (registers) blocks = least(blocks, m->regs_per_sm / registers);
  if (shared) blocks = least(blocks, (uint32_t)(m->shared_per_sm / (round_up((uint32_t)shared, SHARED_UNIT))));
  return blocks;
}

CUresult impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t dynamic) {
  if (!blocks || threads <= 0 || dynamic > (1u << 30)) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = threads > 1024 ? 0 : (int)blocks_per_sm(&card_for(function)->model, function->kernel, (uint32_t)threads, dynamic);
  return CUDA_SUCCESS;
}

CUresult impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads, size_t dynamic, unsigned flags) {
  (void)flags;
  return impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic);
}

CUresult impl_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize size_of, size_t dynamic, int limit) {
  const struct sim_card_model *m;
  uint32_t best = 0;
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  m = &card_for(function)->model;
  if (limit <= 0 || limit > 1024) limit = 1024;
  *grid = *block = 0;
  for (uint32_t threads = (uint32_t)limit / WARP * WARP; threads >= WARP; threads -= WARP) {
    uint32_t blocks = blocks_per_sm(m, function->kernel, threads, size_of ? size_of((int)threads) : dynamic);
    if (blocks * threads <= best) continue;
    best = blocks * threads;
    *block = (int)threads;
    *grid = (int)(blocks * m->sms);
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function, CUoccupancyB2DSize size_of,
                                                        size_t dynamic, int limit, unsigned flags) {
  (void)flags;
  return impl_cuOccupancyMaxPotentialBlockSize(grid, block, function, size_of, dynamic, limit);
}

CUresult impl_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic, CUfunction function, int blocks, int threads) {
  const struct sim_card_model *m;
  uint64_t share;
  if (!dynamic || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  m = &card_for(function)->model;
  share = m->shared_per_sm / (uint64_t)blocks / SHARED_UNIT * SHARED_UNIT;
  share -= m->cc_major >= 8 && share >= 1024 ? 1024 : 0;
  if (share > m->shared_optin) share = m->shared_optin;
  *dynamic = share > function->kernel->shared ? share - function->kernel->shared : 0;
  return CUDA_SUCCESS;
}

CUresult impl_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config) {
  if (!size || !config) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  *size = card_for(function)->model.cc_major >= 9 ? 8 : 1; /* the portable maximum */
  return CUDA_SUCCESS;
}

CUresult impl_cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
  const struct sim_card_model *m;
  unsigned size = 1;
  if (!clusters || !config) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  m = &card_for(function)->model;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    size = attribute->value.clusterDim.x * attribute->value.clusterDim.y * attribute->value.clusterDim.z;
  }
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  *clusters = (int)(blocks_per_sm(m, function->kernel, config->blockDimX * config->blockDimY * config->blockDimZ,
                                  config->sharedMemBytes) * m->sms / size);
  return CUDA_SUCCESS;
}
