#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

/* The first driver branch of each CUDA release. */
static const char *driver_text(int version) {
  if (version >= 13040) return "615.71.09";
  if (version >= 13000) return "580.65.06";
  if (version >= 12090) return "575.51.03";
  if (version >= 12080) return "570.86.10";
  if (version >= 12040) return "550.54.14";
  if (version >= 12000) return "525.60.13";
  return "470.57.02";
}

static int cuda_version(void) {
  const char *named = getenv("TESSERA_SIM_CUDA");
  unsigned major, minor;
  if (named && sscanf(named, "%u.%u", &major, &minor) == 2 && major >= 11 && major <= 13 && minor <= 9) {
    return (int)(major * 1000 + minor * 10);
  }
  return nvml.node.node ? (int)nvml.node.node->options.driver_version : 12090;
}

nvmlReturn_t impl_nvmlSystemGetDriverVersion(char *text, unsigned size) { return give_text(text, size, driver_text(cuda_version())); }

nvmlReturn_t impl_nvmlSystemGetNVMLVersion(char *text, unsigned size) {
  char version[32];
  snprintf(version, sizeof version, "%d.%s", cuda_version() / 1000, driver_text(cuda_version()));
  return give_text(text, size, version);
}

nvmlReturn_t impl_nvmlSystemGetCudaDriverVersion(int *version) {
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  *version = cuda_version();
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlSystemGetCudaDriverVersion_v2(int *version) { return impl_nvmlSystemGetCudaDriverVersion(version); }

nvmlReturn_t impl_nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
  char path[48], text[1024];
  ssize_t length;
  int fd;
  if (!name || size == 0) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NVML_ERROR_NOT_FOUND;
  length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return NVML_ERROR_NOT_FOUND;
  text[length] = '\0'; /* the first word ends at the first zero */
  snprintf(name, size, "%s", text);
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlUnitGetCount(unsigned *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM: return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_GPU_NOT_FOUND: return "No GPUs were found";
    default: return "Unknown Error";
  }
}
