/* NVML as the claim sees it: memory and utilisation are its own. The driver is asked first, so that its errors stay its own. */
#include "nvml_driver.h"

#include "claim.h"
#include "clock.h"
#include "view.h"

/* An agent whose last tick is older than this says nothing about the present. */
#define FRESH_NS (UINT64_C(3) * 1000000000)

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetMemoryInfo, device, memory);
    if (result != NVML_SUCCESS)
        return result;
    struct view view = view_of(claim_region(), index, memory->total, memory->free);
    *memory = (nvmlMemory_t){.total = view.total, .free = view.free, .used = view.total - view.free};
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetMemoryInfo_v2, device, memory);
    if (result != NVML_SUCCESS)
        return result;
    struct view view = view_of(claim_region(), index, memory->total, memory->free);
    memory->total = view.total;
    memory->free = view.free;
    memory->used = view.used;
    memory->reserved = view.total - view.used - view.free; /* within the limit, but taken by others at this moment */
    return result;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetUtilizationRates, device, utilization);
    if (result != NVML_SUCCESS)
        return result;
    struct region *region = claim_region();
    const struct limits *limits = config_limits(region, index);
    uint64_t beat = __atomic_load_n(&region->config->agent_beat_ns, __ATOMIC_RELAXED), now = clock_now();
    if (!limits || (now > beat && now - beat > FRESH_NS))
        return NVML_ERROR_NOT_SUPPORTED; /* only the agent can tell the claim's part, and nothing is better than the neighbours' */
    unsigned int all = utilization->gpu, own = (limits->busy + 5) / 10;
    utilization->memory = all ? utilization->memory * (own < all ? own : all) / all : 0;
    utilization->gpu = own > 100 ? 100 : own;
    return result;
}

/* Fields that count what all of the card's users moved. */
static bool counts_all(unsigned int field) {
    return (field >= NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L0 && field <= NVML_FI_DEV_NVLINK_BANDWIDTH_C1_TOTAL) ||
           (field >= NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L6 && field <= NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L11) ||
           (field >= NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX && field <= NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX) ||
           field == NVML_FI_DEV_PCIE_COUNT_TX_BYTES || field == NVML_FI_DEV_PCIE_COUNT_RX_BYTES ||
           (field >= NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS && field <= NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    int index;
    nvmlReturn_t result = nvml_device_index(device, &index);
    if (result == NVML_SUCCESS)
        result = NVML(nvmlDeviceGetFieldValues, device, count, values);
    for (int i = 0; result == NVML_SUCCESS && i < count; i++)
        if (counts_all(values[i].fieldId)) {
            values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
            values[i].value.ullVal = 0;
        }
    return result;
}
