#include <stddef.h>

#include "impl.h"

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

CUresult impl_cuGetErrorName(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code == error) *text = errors[i].name;
  }
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code == error) *text = errors[i].text;
  }
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
