/* Making and ending contexts. */
#include "charge.h"
#include "context.h"
#include "lane.h"

/* The context was made and its true cost is known now. */
static CUresult finish(CUresult result, CUcontext *context, int device) {
    if (!context_end(device, result)) {
        DRIVER(cuCtxDestroy_v2, *context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        context_remember(*context, device);
    return result;
}

/* A call that makes a context: name, parameters, arguments. */
#define MAKES(name, parameters, ...)                                                               \
    CUresult name parameters {                                                                     \
        int device = device_index(dev);                                                            \
        CUresult result = context_begin(device);                                                   \
        return result ? result : finish(DRIVER(name, __VA_ARGS__), context, device);               \
    }

MAKES(cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice dev), context, flags, dev)
MAKES(cuCtxCreate, (CUcontext *context, unsigned int flags, CUdevice dev), context, flags, dev)
MAKES(cuCtxCreate_v3, (CUcontext *context, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice dev), context, params, count,
      flags, dev)
MAKES(cuCtxCreate_v4, (CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice dev), context, params, flags, dev)

/* What a context held goes with it: its memory, and the events in its streams. */
static void drop(CUcontext context) {
    if (!context)
        return;
    charge_drop_owner(context);
    lane_drop_context(context);
    device_forget_contexts();
}

static CUresult destroyed(CUresult result, CUcontext context) {
    if (result == CUDA_SUCCESS) {
        drop(context);
        context_gone(context_forget(context));
    }
    return result;
}

/* A call that ends something: name, what follows, parameter. */
#define ENDS(name, follows, type, what)                 \
    CUresult name(type what) {                          \
        return follows(DRIVER(name, what), what);       \
    }

ENDS(cuCtxDestroy_v2, destroyed, CUcontext, context)
ENDS(cuCtxDestroy, destroyed, CUcontext, context)

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev) {
    int device = device_index(dev);
    CUresult result = context_begin(device);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuDevicePrimaryCtxRetain, context, dev);
    if (!context_end(device, result)) {
        DRIVER(cuDevicePrimaryCtxRelease_v2, dev);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        context_primary_retained(device, *context);
    return result;
}

static CUresult released(CUresult result, CUdevice dev) {
    int device = device_index(dev);
    if (result == CUDA_SUCCESS) {
        drop(context_primary(device, 1));
        context_gone(device);
    }
    return result;
}

ENDS(cuDevicePrimaryCtxRelease_v2, released, CUdevice, dev)
ENDS(cuDevicePrimaryCtxRelease, released, CUdevice, dev)

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return context_limit(limit, value);
}

/* A reset frees what the context holds; whoever retained it still owes the release, so its overhead stays charged. */
static CUresult was_reset(CUresult result, CUdevice dev) {
    if (result == CUDA_SUCCESS)
        drop(context_primary(device_index(dev), 0));
    return result;
}

ENDS(cuDevicePrimaryCtxReset_v2, was_reset, CUdevice, dev)
ENDS(cuDevicePrimaryCtxReset, was_reset, CUdevice, dev)
