/* Calls that exist so that a program gets an honest answer: not supported by this driver. */
#include "impl.h"

CUresult impl_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  (void)handle, (void)pointer;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags) {
  (void)pointer, (void)handle, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuIpcCloseMemHandle(CUdeviceptr pointer) {
  (void)pointer;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
  (void)handle, (void)event;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) {
  (void)event, (void)handle;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  (void)out, (void)handle, (void)type, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared, CUmemAllocationHandleType type) {
  (void)out, (void)shared, (void)type;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) {
  (void)out, (void)pool, (void)type, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *shared, CUmemAllocationHandleType type, unsigned long long flags) {
  (void)out, (void)shared, (void)type, (void)flags;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr pointer) {
  (void)out, (void)pointer;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
  (void)out, (void)pool, (void)data;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description) {
  (void)out, (void)description;
  return CUDA_ERROR_NOT_SUPPORTED;
}
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
