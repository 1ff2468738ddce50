/* Lists of processes: those of the claim that live, from its ledger. Neighbours do not exist. */
#include "nvml_driver.h"

#include "claim.h"
#include "ledger.h"

#include <string.h>

struct process {
    unsigned int pid;
    unsigned long long bytes;
};

static bool listed(const struct region *region, int slot, int device, struct process *process) {
    const struct vcuda_slot *record = region_slot(region, slot);
    uint64_t bytes = ledger_slot_bytes(region, slot, device);
    bool used = bytes || __atomic_load_n(&record->device[device].contexts, __ATOMIC_RELAXED); /* written by the slot's owner */
    if (!used || !region_slot_alive(region->lock_fd, slot))
        return false;
    *process = (struct process){.pid = record->pid, .bytes = bytes};
    return true;
}

/* The claim's processes on the device; writes at most `room`, returns how many there are. */
static unsigned int find_processes(int device, struct process *found, unsigned int room) {
    struct region *region = claim_region();
    unsigned int count = 0;
    struct process process;
    for (int slot = 0; slot < region_slots_used(region); slot++)
        if (listed(region, slot, device, &process)) {
            if (count < room)
                found[count] = process;
            count++;
        }
    return count;
}

/* Ask the driver for the size only, so that a handle or a state that it refuses is refused here too. */
static nvmlReturn_t accepted(nvmlReturn_t result) {
    return result == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : result;
}

enum shape { SHAPE_V1, SHAPE_V2 }; /* entries of 16 and 24 bytes; version 3 has those of 2 */

static void put(void *infos, unsigned int i, enum shape shape, const struct process *process) {
    if (shape == SHAPE_V1)
        ((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){.pid = process->pid, .usedGpuMemory = process->bytes};
    else
        ((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){
            .pid = process->pid, .usedGpuMemory = process->bytes, .gpuInstanceId = 0xFFFFFFFF, .computeInstanceId = 0xFFFFFFFF};
}

static nvmlReturn_t list(nvmlDevice_t device, nvmlReturn_t asked, unsigned int *count, void *infos, enum shape shape) {
    struct process found[VCUDA_MAX_SLOTS];
    int index;
    nvmlReturn_t result = accepted(asked);
    if (result == NVML_SUCCESS)
        result = nvml_device_index(device, &index);
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = infos ? *count : 0, total = find_processes(index, found, VCUDA_MAX_SLOTS);
    *count = total;
    if (total > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < total; i++)
        put(infos, i, shape, &found[i]);
    return NVML_SUCCESS;
}

/* The claim has compute processes only: lists of any other kind are empty, once the driver has accepted the call. */
static nvmlReturn_t empty(nvmlDevice_t device, nvmlReturn_t asked, unsigned int *count, void *infos, enum shape shape) {
    nvmlReturn_t result = accepted(asked);
    (void)device, (void)infos, (void)shape;
    if (result == NVML_SUCCESS && !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

#define LIST(name, entry, answer, shape)                                            \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, entry *infos) {     \
        unsigned int none = 0;                                                      \
        return answer(device, NVML(name, device, &none, NULL), count, infos, shape); \
    }
#define LISTS(name, answer)                                    \
    LIST(name, nvmlProcessInfo_v1_t, answer, SHAPE_V1)         \
    LIST(name##_v2, nvmlProcessInfo_v2_t, answer, SHAPE_V2)    \
    LIST(name##_v3, nvmlProcessInfo_t, answer, SHAPE_V2)

LISTS(nvmlDeviceGetComputeRunningProcesses, list)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, empty)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, empty)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist) {
    nvmlProcessDetailList_t none;
    if (!plist)
        return NVML_ERROR_INVALID_ARGUMENT;
    none = (nvmlProcessDetailList_t){.version = plist->version, .mode = plist->mode};
    nvmlReturn_t result = accepted(NVML(nvmlDeviceGetRunningProcessDetailList, device, &none));
    int index;
    if (result == NVML_SUCCESS)
        result = nvml_device_index(device, &index);
    if (result != NVML_SUCCESS)
        return result;
    struct process found[VCUDA_MAX_SLOTS];
    unsigned int room = plist->procArray ? plist->numProcArrayEntries : 0;
    unsigned int total = plist->mode == 0 ? find_processes(index, found, VCUDA_MAX_SLOTS) : 0; /* 0: compute */
    plist->numProcArrayEntries = total;
    if (total > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < total; i++)
        plist->procArray[i] = (nvmlProcessDetail_v1_t){
            .pid = found[i].pid, .usedGpuMemory = found[i].bytes, .gpuInstanceId = 0xFFFFFFFF, .computeInstanceId = 0xFFFFFFFF};
    return result;
}

static bool is_ours(const struct process *own, unsigned int count, unsigned int pid) {
    for (unsigned int i = 0; i < count; i++)
        if (own[i].pid == pid)
            return true;
    return false;
}

/* Keep the samples of the claim's processes, `size` bytes each with the process id at `at`. */
static unsigned int keep_own(int index, char *samples, unsigned int count, size_t size, size_t at) {
    struct process own[VCUDA_MAX_SLOTS];
    unsigned int processes = find_processes(index, own, VCUDA_MAX_SLOTS), kept = 0;
    for (unsigned int i = 0; i < count; i++) {
        unsigned int pid;
        memcpy(&pid, samples + i * size + at, sizeof pid);
        if (is_ours(own, processes, pid))
            memmove(samples + kept++ * size, samples + i * size, size);
    }
    memset(samples + kept * size, 0, (count - kept) * size);
    return kept;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count,
                                             unsigned long long since) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetProcessUtilization, device, samples, count, since);
    if (result == NVML_SUCCESS && samples)
        *count = keep_own(index, (char *)samples, *count, sizeof *samples, offsetof(nvmlProcessUtilizationSample_t, pid));
    return result;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetProcessesUtilizationInfo, device, info);
    if (result == NVML_SUCCESS && info->procUtilArray)
        info->processSamplesCount = keep_own(index, (char *)info->procUtilArray, info->processSamplesCount,
                                             sizeof *info->procUtilArray, offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
    return result;
}
