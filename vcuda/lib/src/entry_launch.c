/* Launches of kernels and graphs, most with a twin for per-thread default streams. */
#include "gate.h"
#include "graphmem.h"

static uint64_t key_of(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared) {
    return kernel_key(f, &(struct shape){.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared});
}

static uint64_t config_key(CUfunction f, const CUlaunchConfig *c) {
    return c ? kernel_key(f, &SHAPE_OF(c)) : 1;
}

/* A launch: name, stream flavour, stream, key, parameters, arguments. */
#define LAUNCH(name, flavour, stream, key, parameters, ...)                   \
    CUresult name parameters {                                                \
        struct gate gate;                                                     \
        CUresult result = gate_enter(&gate, key, gate_stream(stream, flavour)); \
        return result ? result : gate_leave(&gate, DRIVER(name, __VA_ARGS__)); \
    }
#define TWINS(name, ...)            \
    LAUNCH(name, false, __VA_ARGS__) \
    LAUNCH(name##_ptsz, true, __VA_ARGS__)

TWINS(cuLaunchKernel, stream, key_of(f, gx, gy, gz, bx, by, bz, shared),
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
       void **params, void **extra),
      f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)
TWINS(cuLaunchKernelEx, config ? config->hStream : NULL, config_key(f, config),
      (const CUlaunchConfig *config, CUfunction f, void **params, void **extra), config, f, params, extra)
TWINS(cuLaunchCooperativeKernel, stream, key_of(f, gx, gy, gz, bx, by, bz, shared),
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
       void **params),
      f, gx, gy, gz, bx, by, bz, shared, stream, params)

/* The oldest launches: their block comes from an earlier call, so only function and grid name the kernel. */
LAUNCH(cuLaunch, false, NULL, key_of(f, 1, 1, 1, 0, 0, 0, 0), (CUfunction f), f)
LAUNCH(cuLaunchGrid, false, NULL, key_of(f, (unsigned)width, (unsigned)height, 1, 0, 0, 0, 0), (CUfunction f, int width, int height), f,
       width, height)
LAUNCH(cuLaunchGridAsync, false, stream, key_of(f, (unsigned)width, (unsigned)height, 1, 0, 0, 0, 0),
       (CUfunction f, int width, int height, CUstream stream), f, width, height, stream)

/* One kernel on each of several cards, each with a stream and context of its own. The driver answers for lists that make no sense. */
static CUresult enter_in_its_context(struct gate *gate, const CUDA_LAUNCH_PARAMS *p) {
    CUcontext context = NULL, popped;
    bool pushed = DRIVER(cuStreamGetCtx, p->hStream, &context) == CUDA_SUCCESS && DRIVER(cuCtxPushCurrent_v2, context) == CUDA_SUCCESS;
    CUresult result = gate_enter(gate, kernel_key(p->function, &SHAPE_OF(p)), gate_stream(p->hStream, false));
    if (pushed)
        DRIVER(cuCtxPopCurrent_v2, &popped);
    return result;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags) {
    struct gate gates[VCUDA_MAX_DEVICES];
    unsigned int entered = 0, known = list && count <= VCUDA_MAX_DEVICES ? count : 0;
    CUresult result = CUDA_SUCCESS;
    while (entered < known && (result = enter_in_its_context(&gates[entered], &list[entered])) == CUDA_SUCCESS)
        entered++;
    if (result == CUDA_SUCCESS)
        result = DRIVER(cuLaunchCooperativeKernelMultiDevice, list, count, flags);
    while (entered > 0)
        gate_leave(&gates[--entered], result);
    return result;
}

/* Its memory after the gate: nobody else is kept from the allocator while we wait. */
static CUresult launch_graph(CUgraphExec exec, CUstream stream) {
    struct gate gate;
    struct graphmem memory;
    CUresult result = gate_enter(&gate, kernel_graph_key(exec), stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = graphmem_begin(&memory, exec, stream);
    return gate_leave(&gate, result ? result : graphmem_end(&memory, DRIVER(cuGraphLaunch, exec, stream)));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return launch_graph(exec, gate_stream(stream, false));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    return launch_graph(exec, gate_stream(stream, true));
}
