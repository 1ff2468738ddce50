#include "module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "impl.h"
#include "transfer.h"

static struct CUmod_st *modules; /* of contexts; guarded by driver.lock */

static CUresult image_error(int error) {
  switch (error) {
    case 0: return CUDA_SUCCESS;
    case -ENOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOTSUP: return CUDA_ERROR_NO_BINARY_FOR_GPU;
    default: return CUDA_ERROR_INVALID_IMAGE;
  }
}

static bool make_functions(struct CUmod_st *module) {
  module->functions = calloc(module->image.kernel_count + 1, sizeof(struct CUfunc_st *));
  module->globals = calloc(module->image.global_count + 1, sizeof(CUdeviceptr));
  if (!module->functions || !module->globals) return false;
  for (size_t i = 0; i < module->image.kernel_count; i++) {
    struct CUfunc_st *function = handle_new(KIND_FUNCTION, sizeof *function);
    if (!function) return false;
    function->ctx = module->ctx;
    function->module = module;
    function->kernel = &module->image.kernels[i];
    function->carveout = -1;
    module->functions[i] = function;
  }
  return true;
}

/* Nobody outside the driver knows how large a kernel is on the card: a plausible value. */
static uint64_t code_bytes(const struct image *image) { return (image->kernel_count + 1) * 16 * 1024; }

CUresult module_make(struct CUctx_st *ctx, const void *data, size_t size, struct CUmod_st **out) {
  struct CUmod_st *module = handle_new(KIND_MODULE, sizeof *module);
  CUresult result;
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  module->ctx = ctx;
  result = image_error(image_parse(data, size, &module->image));
  if (result == CUDA_SUCCESS && !make_functions(module)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS && ctx) result = memory_error(heap_alloc(&driver.node, ctx, ctx->card, SIM_CONTEXT, code_bytes(&module->image), &module->code));
  if (result != CUDA_SUCCESS) {
    module_drop(module);
    return result;
  }
  *out = module;
  return CUDA_SUCCESS;
}

void module_drop(struct CUmod_st *module) {
  for (size_t i = 0; module->functions && i < module->image.kernel_count; i++) {
    if (module->functions[i]) handle_free(module->functions[i]);
  }
  for (size_t i = 0; module->globals && i < module->image.global_count; i++) {
    if (module->globals[i]) heap_free(&driver.node, module->globals[i]);
  }
  if (module->code) heap_free(&driver.node, module->code);
  free(module->functions);
  free(module->globals);
  image_clear(&module->image);
  handle_free(module);
}

CUresult module_function(struct CUmod_st *module, const char *name, struct CUfunc_st **out) {
  for (size_t i = 0; i < module->image.kernel_count; i++) {
    if (strcmp(module->image.kernels[i].name, name) != 0) continue;
    *out = module->functions[i];
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

static void link_module(struct CUmod_st *module) {
  pthread_mutex_lock(&driver.lock);
  module->next = modules;
  modules = module;
  pthread_mutex_unlock(&driver.lock);
}

void modules_end(struct CUctx_st *ctx) {
  struct CUmod_st **link = &modules;
  pthread_mutex_lock(&driver.lock);
  while (*link) {
    struct CUmod_st *module = *link;
    if (module->ctx != ctx) {
      link = &module->next;
      continue;
    }
    *link = module->next;
    module_drop(module);
  }
  pthread_mutex_unlock(&driver.lock);
}

CUresult impl_cuModuleLoadData(CUmodule *out, const void *image) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  result = module_make(ctx, image, 0, out);
  if (result == CUDA_SUCCESS) link_module(*out);
  return result;
}

static void clear_logs(unsigned count, const CUjit_option *options, void **values) {
  for (unsigned i = 0; options && values && i < count; i++) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        if (values[i]) *(char *)values[i] = '\0';
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: values[i] = NULL; break; /* bytes of the log: none */
      default: break;
    }
  }
}

CUresult impl_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options, void **values) {
  clear_logs(count, options, values);
  return impl_cuModuleLoadData(out, image);
}

CUresult impl_cuModuleLoadFatBinary(CUmodule *out, const void *image) { return impl_cuModuleLoadData(out, image); }

CUresult module_read_file(const char *path, char **data, size_t *length) {
  FILE *file = fopen(path, "rbe");
  long size = 0;
  *data = NULL;
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 4) {
    rewind(file);
    *data = calloc(1, (size_t)size + 1);
    if (*data && fread(*data, 1, (size_t)size, file) != (size_t)size) {
      free(*data);
      *data = NULL;
    }
  }
  fclose(file);
  if (length) *length = (size_t)size;
  return *data ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult impl_cuModuleLoad(CUmodule *out, const char *path) {
  char *data;
  CUresult result;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  result = module_read_file(path, &data, NULL);
  if (result != CUDA_SUCCESS) return result;
  result = impl_cuModuleLoadData(out, data);
  free(data);
  return result;
}

CUresult impl_cuModuleUnload(CUmodule module) {
  struct CUmod_st **link = &modules;
  if (!handle_is(module, KIND_MODULE) || !module->ctx) return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&driver.lock);
  while (*link && *link != module) link = &(*link)->next;
  if (*link) *link = module->next;
  pthread_mutex_unlock(&driver.lock);
  module_drop(module);
  return CUDA_SUCCESS;
}

CUresult impl_cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(module, KIND_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  return module_function(module, name, out);
}
