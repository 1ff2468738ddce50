/*
 * The first ABIs of calls that have newer ones. A driver still exports them; those with 32-bit addresses cannot work where
 * addresses have 64 bits.
 */
#include <string.h>

#include "impl.h"
#include "module.h"

static unsigned clamp(size_t value) { return value > UINT32_MAX ? UINT32_MAX : (unsigned)value; }

CUresult impl_cuDeviceTotalMem(unsigned *bytes, CUdevice device) {
  size_t wide;
  CUresult result = impl_cuDeviceTotalMem_v2(&wide, device);
  if (result != CUDA_SUCCESS) return result;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = clamp(wide);
  return CUDA_SUCCESS;
}

CUresult impl_cuMemGetInfo(unsigned *available, unsigned *total) {
  size_t wide_available, wide_total;
  CUresult result = impl_cuMemGetInfo_v2(&wide_available, &wide_total);
  if (result != CUDA_SUCCESS) return result;
  if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
  *available = clamp(wide_available);
  *total = clamp(wide_total);
  return CUDA_SUCCESS;
}

CUresult impl_cuMemAlloc(unsigned *out, unsigned bytes) {
  (void)out, (void)bytes;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemAllocPitch(unsigned *out, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
  (void)out, (void)pitch, (void)width, (void)height, (void)element;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuMemFree(unsigned pointer) {
  (void)pointer;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult impl_cuArrayCreate(CUarray *out, const struct old_array *d) {
  CUDA_ARRAY_DESCRIPTOR wide;
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  wide = (CUDA_ARRAY_DESCRIPTOR){.Width = d->width, .Height = d->height, .Format = d->format, .NumChannels = d->channels};
  return impl_cuArrayCreate_v2(out, &wide);
}
CUresult impl_cuArray3DCreate(CUarray *out, const struct old_box *d) {
  CUDA_ARRAY3D_DESCRIPTOR wide;
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  wide = (CUDA_ARRAY3D_DESCRIPTOR){.Width = d->width, .Height = d->height, .Depth = d->depth, .Format = d->format,
                                   .NumChannels = d->channels, .Flags = d->flags};
  return impl_cuArray3DCreate_v2(out, &wide);
}

CUresult impl_cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) { return impl_cuCtxCreate_v2(out, flags, device); }
CUresult impl_cuCtxDestroy(CUcontext ctx) { return impl_cuCtxDestroy_v2(ctx); }
CUresult impl_cuCtxPushCurrent(CUcontext ctx) { return impl_cuCtxPushCurrent_v2(ctx); }
CUresult impl_cuCtxPopCurrent(CUcontext *out) { return impl_cuCtxPopCurrent_v2(out); }
CUresult impl_cuDevicePrimaryCtxRelease(CUdevice device) { return impl_cuDevicePrimaryCtxRelease_v2(device); }
CUresult impl_cuDevicePrimaryCtxReset(CUdevice device) { return impl_cuDevicePrimaryCtxReset_v2(device); }
CUresult impl_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) { return impl_cuDevicePrimaryCtxSetFlags_v2(device, flags); }
CUresult impl_cuStreamDestroy(CUstream stream) { return impl_cuStreamDestroy_v2(stream); }
CUresult impl_cuEventDestroy(CUevent event) { return impl_cuEventDestroy_v2(event); }

CUresult impl_cuStreamBeginCapture(CUstream stream) { return impl_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }
CUresult impl_cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t size) {
  return impl_cuGraphInstantiate_v2(out, graph, bad, log, size);
}
CUresult impl_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad, CUgraphExecUpdateResult *why) {
  CUgraphExecUpdateResultInfo info = {0};
  CUresult result = impl_cuGraphExecUpdate_v2(exec, graph, &info);
  if (bad) *bad = info.errorNode;
  if (why) *why = info.result;
  return result;
}

/* Launches before CUDA 4: block shape and parameters belong to the function. */
CUresult impl_cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  function->old_block[0] = (unsigned)x;
  function->old_block[1] = (unsigned)y;
  function->old_block[2] = (unsigned)z;
  return CUDA_SUCCESS;
}
CUresult impl_cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  function->old_shared = bytes;
  return CUDA_SUCCESS;
}
CUresult impl_cuParamSetSize(CUfunction function, unsigned bytes) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  return bytes <= sizeof function->old_params ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult impl_cuParamSetv(CUfunction function, int offset, void *value, unsigned bytes) {
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (offset < 0 || !value || (size_t)offset + bytes > sizeof function->old_params) return CUDA_ERROR_INVALID_VALUE;
  memcpy(function->old_params + offset, value, bytes);
  return CUDA_SUCCESS;
}
CUresult impl_cuParamSeti(CUfunction function, int offset, unsigned value) {
  return impl_cuParamSetv(function, offset, &value, sizeof value);
}
CUresult impl_cuParamSetf(CUfunction function, int offset, float value) {
  return impl_cuParamSetv(function, offset, &value, sizeof value);
}

CUresult impl_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, NULL, CU_LAUNCH_PARAM_END};
  if (!handle_is(function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  extra[1] = function->old_params;
  return impl_cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, function->old_block[0], function->old_block[1],
                             function->old_block[2], function->old_shared, stream, NULL, extra);
}
CUresult impl_cuLaunchGrid(CUfunction function, int width, int height) { return impl_cuLaunchGridAsync(function, width, height, NULL); }
CUresult impl_cuLaunch(CUfunction function) { return impl_cuLaunchGridAsync(function, 1, 1, NULL); }
