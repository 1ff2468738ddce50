/* Libraries: modules without a context. Globals of modules and libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "impl.h"
#include "module.h"
#include "transfer.h"

static struct CUmod_st *module_of(CUlibrary library) {
  struct CUmod_st *module = (struct CUmod_st *)library;
  return handle_is(module, KIND_MODULE) && !module->ctx ? module : NULL;
}

CUresult impl_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options, void **values, unsigned count,
                                CUlibraryOption *library_options, void **library_values, unsigned library_count) {
  struct CUmod_st *module;
  CUresult result;
  (void)options, (void)values, (void)count, (void)library_options, (void)library_values, (void)library_count;
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  result = module_make(NULL, code, 0, &module);
  if (result == CUDA_SUCCESS) *out = (CUlibrary)module;
  return result;
}

CUresult impl_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options, void **values, unsigned count,
                                    CUlibraryOption *library_options, void **library_values, unsigned library_count) {
  char *data;
  CUresult result;
  if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
  result = module_read_file(path, &data, NULL);
  if (result != CUDA_SUCCESS) return result;
  result = impl_cuLibraryLoadData(out, data, options, values, count, library_options, library_values, library_count);
  free(data);
  return result;
}

CUresult impl_cuLibraryUnload(CUlibrary library) {
  struct CUmod_st *module = module_of(library);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  module_drop(module);
  return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
  struct CUmod_st *module = module_of(library);
  CUfunction function;
  CUresult result;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  result = module_function(module, name, &function);
  if (result == CUDA_SUCCESS) *out = (CUkernel)function;
  return result;
}

CUresult impl_cuLibraryGetModule(CUmodule *out, CUlibrary library) {
  struct CUmod_st *module = module_of(library);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = module;
  return CUDA_SUCCESS;
}

CUresult impl_cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  if (!handle_is(module, KIND_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (unsigned)module->image.kernel_count;
  return CUDA_SUCCESS;
}

CUresult impl_cuModuleEnumerateFunctions(CUfunction *out, unsigned room, CUmodule module) {
  if (!handle_is(module, KIND_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < room && i < module->image.kernel_count; i++) out[i] = module->functions[i];
  return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
  return module_of(library) ? impl_cuModuleGetFunctionCount(count, module_of(library)) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult impl_cuLibraryEnumerateKernels(CUkernel *out, unsigned room, CUlibrary library) {
  return module_of(library) ? impl_cuModuleEnumerateFunctions((CUfunction *)out, room, module_of(library)) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(kernel, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult impl_cuKernelGetLibrary(CUlibrary *out, CUkernel kernel) {
  if (!handle_is(kernel, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUlibrary)((CUfunction)kernel)->module;
  return CUDA_SUCCESS;
}

CUresult impl_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  (void)device;
  return impl_cuFuncSetCacheConfig((CUfunction)kernel, config);
}
CUresult impl_cuKernelGetName(const char **name, CUkernel kernel) { return impl_cuFuncGetName(name, (CUfunction)kernel); }
CUresult impl_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
  return impl_cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

/* The memory of a global variable is taken when it is first asked for, in the context that asks. */
CUresult impl_cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(module, KIND_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < module->image.global_count; i++) {
    const struct image_global *global = &module->image.globals[i];
    if (strcmp(global->name, name) != 0) continue;
    pthread_mutex_lock(&driver.lock);
    if (!module->globals[i]) {
      uint64_t address = 0;
      result = memory_error(heap_alloc(&driver.node, ctx, ctx->card, SIM_LINEAR, global->size, &address));
      module->globals[i] = address;
    }
    pthread_mutex_unlock(&driver.lock);
    if (pointer) *pointer = module->globals[i];
    if (bytes) *bytes = global->size;
    return result;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult impl_cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name) {
  return module_of(library) ? impl_cuModuleGetGlobal_v2(pointer, bytes, module_of(library), name) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name) {
  return impl_cuLibraryGetGlobal(pointer, bytes, library, name);
}

CUresult impl_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
