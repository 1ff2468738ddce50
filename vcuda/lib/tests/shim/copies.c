/* A tenant's program that copies in every way that there is, and counts on its own: prints the bytes to the card, from it and on it, then how long
 * (node time, ns) one copy of 256 MiB to the card took. With the word "capture", the last copies go into a capture and are no copies. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int tesseraSimNow(uint64_t *ns);

enum { BYTES = 1 << 16, LARGE = 256 << 20 };

static uint64_t to_device, to_host, on_device;

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "copies: %s answered %d\n", what, (int)result);
    exit(1);
}
#define MUST(call) must(call, #call)

#define COUNTED(where, call) \
    do {                     \
        MUST(call);          \
        where += BYTES;      \
    } while (0)

int main(int argc, char **argv) {
    static char host[BYTES];
    CUdeviceptr a, b;
    CUarray array, other;
    CUcontext context;
    CUstream stream;
    CUDA_ARRAY_DESCRIPTOR line = {.Width = BYTES, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&a, BYTES));
    MUST(cuMemAlloc_v2(&b, BYTES));
    MUST(cuArrayCreate_v2(&array, &line));
    MUST(cuArrayCreate_v2(&other, &line));
    CUdeviceptr host_pointer = (CUdeviceptr)(uintptr_t)host;

    COUNTED(to_device, cuMemcpyHtoD_v2(a, host, BYTES));
    COUNTED(to_device, cuMemcpyHtoD_v2_ptds(a, host, BYTES));
    COUNTED(to_device, cuMemcpyHtoDAsync_v2(a, host, BYTES, stream));
    COUNTED(to_device, cuMemcpyHtoDAsync_v2_ptsz(a, host, BYTES, NULL));
    COUNTED(to_device, cuMemcpy(a, host_pointer, BYTES));
    COUNTED(to_device, cuMemcpy_ptds(a, host_pointer, BYTES));
    COUNTED(to_device, cuMemcpyHtoA_v2(array, 0, host, BYTES));
    COUNTED(to_device, cuMemcpyHtoAAsync_v2(array, 0, host, BYTES, stream));
    COUNTED(to_host, cuMemcpyDtoH_v2(host, a, BYTES));
    COUNTED(to_host, cuMemcpyDtoHAsync_v2(host, a, BYTES, stream));
    COUNTED(to_host, cuMemcpyAsync(host_pointer, a, BYTES, stream));
    COUNTED(to_host, cuMemcpyAtoH_v2(host, array, 0, BYTES));
    COUNTED(to_host, cuMemcpyAtoHAsync_v2(host, array, 0, BYTES, stream));
    COUNTED(on_device, cuMemcpyDtoD_v2(b, a, BYTES));
    COUNTED(on_device, cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
    COUNTED(on_device, cuMemcpyAsync_ptsz(b, a, BYTES, NULL));
    COUNTED(on_device, cuMemcpyPeer(b, context, a, context, BYTES));
    COUNTED(on_device, cuMemcpyPeerAsync(b, context, a, context, BYTES, stream));
    COUNTED(on_device, cuMemcpyDtoA_v2(array, 0, a, BYTES));
    COUNTED(on_device, cuMemcpyAtoD_v2(a, array, 0, BYTES));
    COUNTED(on_device, cuMemcpyAtoA_v2(other, 0, array, 0, BYTES));

    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 256, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = a, .dstPitch = 256, .WidthInBytes = 256, .Height = BYTES / 256};
    COUNTED(to_device, cuMemcpy2D_v2(&plane));
    COUNTED(to_device, cuMemcpy2DUnaligned_v2(&plane));
    COUNTED(to_device, cuMemcpy2DAsync_v2(&plane, stream));
    CUDA_MEMCPY3D space = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = a, .srcPitch = 256, .srcHeight = 16,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = b, .dstPitch = 256, .dstHeight = 16,
                           .WidthInBytes = 256, .Height = 16, .Depth = BYTES / 256 / 16};
    COUNTED(on_device, cuMemcpy3D_v2(&space));
    COUNTED(on_device, cuMemcpy3DAsync_v2(&space, stream));
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .srcPitch = 256, .srcHeight = 16, .srcContext = context,
                               .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = host, .dstPitch = 256, .dstHeight = 16,
                               .WidthInBytes = 256, .Height = 16, .Depth = BYTES / 256 / 16};
    COUNTED(to_host, cuMemcpy3DPeer(&peer));
    COUNTED(to_host, cuMemcpy3DPeerAsync(&peer, stream));
    CUdeviceptr to[] = {a, b}, from[] = {host_pointer, host_pointer};
    size_t sizes[] = {BYTES / 2, BYTES / 2}, first = 0, failed;
    CUmemcpyAttributes traits = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    COUNTED(to_device, cuMemcpyBatchAsync(to, from, sizes, 2, &traits, &first, 1, &failed, stream));

    if (argc > 1 && strcmp(argv[1], "capture") == 0) {
        CUgraph graph;
        MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cuMemcpyHtoDAsync_v2(a, host, BYTES, stream));
        MUST(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
        MUST(cuStreamEndCapture(stream, &graph));
    }

    uint64_t begun, ended;
    CUdeviceptr large;
    void *from_here = calloc(1, LARGE);
    MUST(cuMemAlloc_v2(&large, LARGE));
    MUST(cuCtxSynchronize());
    tesseraSimNow(&begun);
    MUST(cuMemcpyHtoD_v2(large, from_here, LARGE));
    tesseraSimNow(&ended);
    to_device += LARGE;
    printf("%llu %llu %llu %llu\n", (unsigned long long)to_device, (unsigned long long)to_host, (unsigned long long)on_device,
           (unsigned long long)(ended - begun));
    return 0;
}
