/* Copies of the driver, each with its twin for per-thread default streams. */
#include "copy.h"

static uint64_t box_bytes(uint64_t width, uint64_t height, uint64_t depth) {
    return width * height * depth;
}

static uint64_t sum_of(const size_t *sizes, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; sizes && i < count; i++)
        sum += sizes[i];
    return sum;
}

#define POINTER ((CUmemorytype)0)
#define WAY(to, from) copy_direction(POINTER, to, POINTER, from)
#define BOX_WAY(box) (box) ? copy_direction((box)->dstMemoryType, (box)->dstDevice, (box)->srcMemoryType, (box)->srcDevice) : ON_DEVICE
#define PLANE(box) (box) ? box_bytes((box)->WidthInBytes, (box)->Height, 1) : 0
#define SPACE(box) (box) ? box_bytes((box)->WidthInBytes, (box)->Height, (box)->Depth) : 0

/* A copy and its twin: name, the suffix of the twin, stream, direction, bytes, how it ends, parameters, arguments. */
#define COPY_ONE(name, flavour, stream, direction, bytes, end, parameters, ...) \
    CUresult name parameters {                                                  \
        struct copy copy;                                                       \
        copy_begin(&copy, gate_stream(stream, flavour), direction, bytes);      \
        return end(&copy, DRIVER(name, __VA_ARGS__));                           \
    }
#define COPY(name, twin, ...)         \
    COPY_ONE(name, false, __VA_ARGS__) \
    COPY_ONE(name##twin, true, __VA_ARGS__)
#define WAITED(name, ...) COPY(name, _ptds, NULL, __VA_ARGS__)
#define QUEUED(name, ...) COPY(name, _ptsz, stream, __VA_ARGS__)

WAITED(cuMemcpy, WAY(to, from), bytes, copy_end, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, from, bytes)
WAITED(cuMemcpyHtoD_v2, TO_DEVICE, bytes, copy_end_waited, (CUdeviceptr to, const void *from, size_t bytes), to, from, bytes)
WAITED(cuMemcpyDtoH_v2, TO_HOST, bytes, copy_end_waited, (void *to, CUdeviceptr from, size_t bytes), to, from, bytes)
WAITED(cuMemcpyDtoD_v2, ON_DEVICE, bytes, copy_end, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, from, bytes)
WAITED(cuMemcpyPeer, ON_DEVICE, bytes, copy_end, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes), to,
       there, from, here, bytes)
WAITED(cuMemcpyDtoA_v2, ON_DEVICE, bytes, copy_end, (CUarray to, size_t at, CUdeviceptr from, size_t bytes), to, at, from, bytes)
WAITED(cuMemcpyAtoD_v2, ON_DEVICE, bytes, copy_end, (CUdeviceptr to, CUarray from, size_t at, size_t bytes), to, from, at, bytes)
WAITED(cuMemcpyHtoA_v2, TO_DEVICE, bytes, copy_end_waited, (CUarray to, size_t at, const void *from, size_t bytes), to, at, from, bytes)
WAITED(cuMemcpyAtoH_v2, TO_HOST, bytes, copy_end_waited, (void *to, CUarray from, size_t at, size_t bytes), to, from, at, bytes)
WAITED(cuMemcpyAtoA_v2, ON_DEVICE, bytes, copy_end, (CUarray to, size_t at, CUarray from, size_t start, size_t bytes), to, at, from, start,
       bytes)
WAITED(cuMemcpy2D_v2, BOX_WAY(box), PLANE(box), copy_end, (const CUDA_MEMCPY2D *box), box)
WAITED(cuMemcpy2DUnaligned_v2, BOX_WAY(box), PLANE(box), copy_end, (const CUDA_MEMCPY2D *box), box)
WAITED(cuMemcpy3D_v2, BOX_WAY(box), SPACE(box), copy_end, (const CUDA_MEMCPY3D *box), box)
WAITED(cuMemcpy3DPeer, BOX_WAY(box), SPACE(box), copy_end, (const CUDA_MEMCPY3D_PEER *box), box)

QUEUED(cuMemcpyAsync, WAY(to, from), bytes, copy_end, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, from, bytes,
       stream)
QUEUED(cuMemcpyHtoDAsync_v2, TO_DEVICE, bytes, copy_end, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), to, from,
       bytes, stream)
QUEUED(cuMemcpyDtoHAsync_v2, TO_HOST, bytes, copy_end, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), to, from, bytes, stream)
QUEUED(cuMemcpyDtoDAsync_v2, ON_DEVICE, bytes, copy_end, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, from,
       bytes, stream)
QUEUED(cuMemcpyPeerAsync, ON_DEVICE, bytes, copy_end,
       (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream), to, there, from, here, bytes,
       stream)
QUEUED(cuMemcpyHtoAAsync_v2, TO_DEVICE, bytes, copy_end, (CUarray to, size_t at, const void *from, size_t bytes, CUstream stream), to, at,
       from, bytes, stream)
QUEUED(cuMemcpyAtoHAsync_v2, TO_HOST, bytes, copy_end, (void *to, CUarray from, size_t at, size_t bytes, CUstream stream), to, from, at,
       bytes, stream)
QUEUED(cuMemcpy2DAsync_v2, BOX_WAY(box), PLANE(box), copy_end, (const CUDA_MEMCPY2D *box, CUstream stream), box, stream)
QUEUED(cuMemcpy3DAsync_v2, BOX_WAY(box), SPACE(box), copy_end, (const CUDA_MEMCPY3D *box, CUstream stream), box, stream)
QUEUED(cuMemcpy3DPeerAsync, BOX_WAY(box), SPACE(box), copy_end, (const CUDA_MEMCPY3D_PEER *box, CUstream stream), box, stream)
/* A batch goes one way as a rule; counted as its first copy. */
QUEUED(cuMemcpyBatchAsync, to && from && count ? WAY(*to, *from) : ON_DEVICE, sum_of(sizes, count), copy_end,
       (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at, size_t kinds,
        size_t *failed, CUstream stream),
       to, from, sizes, count, traits, at, kinds, failed, stream)
QUEUED(cuMemcpyBatchAsync_v2, to && from && count ? WAY(*to, *from) : ON_DEVICE, sum_of(sizes, count), copy_end,
       (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at, size_t kinds,
        CUstream stream),
       to, from, sizes, count, traits, at, kinds, stream)
QUEUED(cuMemcpyWithAttributesAsync, WAY(to, from), bytes, copy_end,
       (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *traits, CUstream stream), to, from, bytes, traits, stream)
