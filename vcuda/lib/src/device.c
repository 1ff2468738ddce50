#include "device.h"

#include "claim.h"
#include "config.h"
#include "log.h"

#include <stdatomic.h>
#include <stdio.h>

enum { KNOWN = 64, OFFSET = 10 }; /* cached as index + OFFSET, so that 0 means "not asked yet" */

static atomic_int known[KNOWN];
static atomic_uint contexts_gone; /* how many; a thread's remembered context counts only while this stands still */

static CUresult uuid_of(CUdevice device, CUuuid *uuid) {
    CUresult result = DRIVER(cuDeviceGetUuid_v2, uuid, device);
    return result == CUDA_ERROR_NOT_FOUND ? DRIVER(cuDeviceGetUuid, uuid, device) : result;
}

static int ask(CUdevice device) {
    struct region *region = claim_region();
    CUuuid uuid;
    char text[VCUDA_UUID_BYTES];
    if (uuid_of(device, &uuid) != CUDA_SUCCESS)
        return DEVICE_UNKNOWN;
    const unsigned char *b = (const unsigned char *)uuid.bytes;
    snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
             b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    int index = region ? config_find(region, text) : DEVICE_UNLISTED;
    if (index < 0)
        log_trouble(TROUBLE_UNLISTED_CARD, text);
    return index;
}

int device_index(CUdevice device) {
    if (device < 0 || device >= KNOWN)
        return ask(device);
    int cached = atomic_load_explicit(&known[device], memory_order_relaxed);
    if (cached)
        return cached - OFFSET;
    int index = ask(device);
    if (index != DEVICE_UNKNOWN)
        atomic_store_explicit(&known[device], index + OFFSET, memory_order_relaxed);
    return index;
}

int device_of_context(CUcontext *context) {
    static __thread struct {
        CUcontext context;
        unsigned generation;
        int device;
    } last;
    CUdevice device;
    unsigned now = atomic_load_explicit(&contexts_gone, memory_order_acquire);
    if (DRIVER(cuCtxGetCurrent, context) != CUDA_SUCCESS || !*context)
        return DEVICE_UNKNOWN;
    if (last.context == *context && last.generation == now)
        return last.device;
    if (DRIVER(cuCtxGetDevice, &device) != CUDA_SUCCESS)
        return DEVICE_UNKNOWN;
    last.context = *context;
    last.generation = now;
    return last.device = device_index(device);
}

int device_current(void) {
    CUcontext context;
    return device_of_context(&context);
}

void device_forget_contexts(void) {
    atomic_fetch_add_explicit(&contexts_gone, 1, memory_order_release);
}
