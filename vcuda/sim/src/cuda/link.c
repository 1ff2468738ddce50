/*
 * The linker. What goes in is checked as a module is; what comes out is a container of all inputs, which our own loader reads
 * as one module. It is no machine code, so no other tool can use it.
 */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "impl.h"
#include "module.h"

struct CUlinkState_st {
  struct head head;
  unsigned char *data; /* the container so far */
  size_t size;
};

static CUresult append(CUlinkState state, const void *data, size_t size, uint16_t kind) {
  size_t padded = (size + 8) / 8 * 8; /* at least one zero behind PTX text */
  struct fatbin_entry entry = {.kind = kind, .version = 0x101, .header_size = sizeof entry, .size = padded};
  unsigned char *grown = realloc(state->data, state->size + sizeof entry + padded);
  struct fatbin_header header;
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  state->data = grown;
  memcpy(grown + state->size, &entry, sizeof entry);
  memset(grown + state->size + sizeof entry, 0, padded);
  memcpy(grown + state->size + sizeof entry, data, size);
  state->size += sizeof entry + padded;
  header = (struct fatbin_header){.magic = FATBIN_MAGIC, .version = FATBIN_LINKED, .header_size = sizeof header,
                                  .size = state->size - sizeof header};
  memcpy(grown, &header, sizeof header);
  return CUDA_SUCCESS;
}

CUresult impl_cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *out) {
  struct CUctx_st *ctx;
  CUlinkState state;
  CUresult result = need_context(&ctx);
  (void)count, (void)options, (void)values;
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  state = handle_new(KIND_LINK, sizeof *state);
  if (!state) return CUDA_ERROR_OUT_OF_MEMORY;
  state->size = sizeof(struct fatbin_header);
  *out = state;
  return CUDA_SUCCESS;
}

CUresult impl_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned count,
                               CUjit_option *options, void **values) {
  struct image image = {0};
  int error;
  (void)name, (void)count, (void)options, (void)values;
  if (!handle_is(state, KIND_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  if (!data || size < 4) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_JIT_INPUT_PTX) {
    error = image_parse_ptx(data, size, &image);
    image_clear(&image);
    return error ? CUDA_ERROR_INVALID_PTX : append(state, data, size, FATBIN_PTX);
  }
  error = memcmp(data, "\177ELF", 4) == 0 ? image_parse_elf(data, size, &image) : -1;
  if (error == 0) {
    image_clear(&image);
    return append(state, data, size, FATBIN_ELF);
  }
  /* a device library of another form holds no kernels of its own */
  return type == CU_JIT_INPUT_CUBIN ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

CUresult impl_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                               void **values) {
  char *data;
  size_t size;
  CUresult result;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  result = module_read_file(path, &data, &size);
  if (result != CUDA_SUCCESS) return result;
  result = impl_cuLinkAddData_v2(state, type, data, size, path, count, options, values);
  free(data);
  return result;
}

CUresult impl_cuLinkComplete(CUlinkState state, void **image, size_t *size) {
  if (!handle_is(state, KIND_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  if (!image || !state->data) return CUDA_ERROR_INVALID_VALUE;
  *image = state->data;
  if (size) *size = state->size;
  return CUDA_SUCCESS;
}

CUresult impl_cuLinkDestroy(CUlinkState state) {
  if (!handle_is(state, KIND_LINK)) return CUDA_ERROR_INVALID_HANDLE;
  free(state->data);
  handle_free(state);
  return CUDA_SUCCESS;
}
