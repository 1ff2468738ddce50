/* Calls that exist so that a program gets an honest answer: not supported by this driver. */
#include "impl.h"

CUresult impl_cuImportExternalSemaphore(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *description) {
  (void)out, (void)description;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuCtxGetExecAffinity(CUexecAffinityParam *out, CUexecAffinityType type) {
  (void)out, (void)type;
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
CUresult impl_cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *properties) {
  (void)out, (void)properties;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  (void)out, (void)description, (void)device, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
  (void)device, (void)resource, (void)type;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
  (void)luid, (void)mask, (void)device;
  return CUDA_ERROR_NOT_SUPPORTED; /* of Windows only */
}
CUresult impl_cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  (void)type;
  if (result != CUDA_SUCCESS) return result;
  if (!supported) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}
CUresult impl_cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult impl_cuProfilerStop(void) { return CUDA_SUCCESS; }
