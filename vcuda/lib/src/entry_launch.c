/* Launches of kernels and graphs. */
#include "gate.h"
#include "graphmem.h"

#define SHAPE(gx, gy, gz, bx, by, bz, bytes) \
    &(struct shape) { .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = bytes }

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                        unsigned int shared, CUstream stream, void **params, void **extra) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE(gx, gy, gz, bx, by, bz, shared)), gate_stream(stream, false));
    if (result != CUDA_SUCCESS)
        return result;
    return gate_leave(&gate, DRIVER(cuLaunchKernel, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                             unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE(gx, gy, gz, bx, by, bz, shared)), gate_stream(stream, true));
    if (result != CUDA_SUCCESS)
        return result;
    return gate_leave(&gate, DRIVER(cuLaunchKernel_ptsz, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}

static uint64_t config_key(CUfunction f, const CUlaunchConfig *c) {
    return c ? kernel_key(f, SHAPE(c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes)) : 1;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
    struct gate gate;
    CUresult result = gate_enter(&gate, config_key(f, config), gate_stream(config ? config->hStream : NULL, false));
    return result ? result : gate_leave(&gate, DRIVER(cuLaunchKernelEx, config, f, params, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
    struct gate gate;
    CUresult result = gate_enter(&gate, config_key(f, config), gate_stream(config ? config->hStream : NULL, true));
    return result ? result : gate_leave(&gate, DRIVER(cuLaunchKernelEx_ptsz, config, f, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                   unsigned int bz, unsigned int shared, CUstream stream, void **params) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE(gx, gy, gz, bx, by, bz, shared)), gate_stream(stream, false));
    if (result != CUDA_SUCCESS)
        return result;
    return gate_leave(&gate, DRIVER(cuLaunchCooperativeKernel, f, gx, gy, gz, bx, by, bz, shared, stream, params));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                        unsigned int bz, unsigned int shared, CUstream stream, void **params) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE(gx, gy, gz, bx, by, bz, shared)), gate_stream(stream, true));
    if (result != CUDA_SUCCESS)
        return result;
    return gate_leave(&gate, DRIVER(cuLaunchCooperativeKernel_ptsz, f, gx, gy, gz, bx, by, bz, shared, stream, params));
}

/* The oldest launches: their block comes from an earlier call, so only function and grid name the kernel. */
CUresult cuLaunch(CUfunction f) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE(1, 1, 1, 0, 0, 0, 0)), CU_STREAM_LEGACY);
    return result ? result : gate_leave(&gate, DRIVER(cuLaunch, f));
}

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_key(f, SHAPE((unsigned)width, (unsigned)height, 1, 0, 0, 0, 0)), CU_STREAM_LEGACY);
    return result ? result : gate_leave(&gate, DRIVER(cuLaunchGrid, f, width, height));
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
    struct gate gate;
    uint64_t key = kernel_key(f, SHAPE((unsigned)width, (unsigned)height, 1, 0, 0, 0, 0));
    CUresult result = gate_enter(&gate, key, gate_stream(stream, false));
    return result ? result : gate_leave(&gate, DRIVER(cuLaunchGridAsync, f, width, height, stream));
}

/* Its memory after the gate: nobody else is kept from the allocator while we wait. */
static CUresult launch_graph(CUgraphExec exec, CUstream stream) {
    struct graphmem memory;
    CUresult result = graphmem_begin(&memory, exec, stream);
    return result ? result : graphmem_end(&memory, DRIVER(cuGraphLaunch, exec, stream));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_graph_key(exec), gate_stream(stream, false));
    return result ? result : gate_leave(&gate, launch_graph(exec, gate_stream(stream, false)));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    struct gate gate;
    CUresult result = gate_enter(&gate, kernel_graph_key(exec), gate_stream(stream, true));
    return result ? result : gate_leave(&gate, launch_graph(exec, gate_stream(stream, true)));
}
