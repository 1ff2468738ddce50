#include "overhead.h"

#include "beside.h"

#include <dlfcn.h>
#include <nvml.h>
#include <stdlib.h>
#include <unistd.h>

struct nvml {
    nvmlReturn_t (*init)(void);
    nvmlReturn_t (*shutdown)(void);
    nvmlReturn_t (*by_uuid)(const char *uuid, nvmlDevice_t *device);
    nvmlReturn_t (*processes)(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
};

static int look_up(struct nvml *nvml, void *handle) {
    *(void **)&nvml->init = beside_symbol(handle, "nvmlInit_v2");
    *(void **)&nvml->shutdown = beside_symbol(handle, "nvmlShutdown");
    *(void **)&nvml->by_uuid = beside_symbol(handle, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml->processes = beside_symbol(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
    return nvml->init && nvml->shutdown && nvml->by_uuid && nvml->processes;
}

static uint64_t find_own(const struct nvml *nvml, nvmlDevice_t device) {
    enum { MOST = 1024 }; /* processes on one card */
    unsigned int count = MOST;
    uint64_t bytes = 0;
    nvmlProcessInfo_t *infos = calloc(MOST, sizeof *infos);
    if (infos && nvml->processes(device, &count, infos) == NVML_SUCCESS)
        for (unsigned int i = 0; i < count && i < MOST; i++)
            if (infos[i].pid == (unsigned int)getpid() && infos[i].usedGpuMemory != (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
                bytes = infos[i].usedGpuMemory;
    free(infos);
    return bytes;
}

uint64_t overhead_own_bytes(const char *uuid) {
    struct nvml nvml;
    nvmlDevice_t device;
    uint64_t bytes = 0;
    /* Ours first, and never closed: a later dlopen of the plain name gets the one loaded first, which must not be the driver's. */
    (void)beside_open("libnvidia-ml.so.1");
    void *handle = beside_open("driver/libnvidia-ml.so.1");
    if (!handle)
        return 0;
    if (look_up(&nvml, handle) && nvml.init() == NVML_SUCCESS) {
        if (nvml.by_uuid(uuid, &device) == NVML_SUCCESS)
            bytes = find_own(&nvml, device);
        nvml.shutdown();
    }
    dlclose(handle);
    return bytes;
}
