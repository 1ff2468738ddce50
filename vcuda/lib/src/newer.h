/* Functions of drivers newer than the cuda.h that this library is built with, as the headers of CUDA 13 declare them. */
#ifndef VCUDA_NEWER_H
#define VCUDA_NEWER_H

#include <cuda.h>

CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at,
                               size_t kinds, CUstream stream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at,
                                    size_t kinds, CUstream stream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *traits, CUstream stream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *traits, CUstream stream);
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data);
CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params);
CUresult cuStreamEndCaptureToCig(CUstream stream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream);

#endif
