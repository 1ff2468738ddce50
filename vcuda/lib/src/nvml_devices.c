/* Which cards there are: those of the claim, numbered from 0 in the driver's order. A node's other cards do not exist for a tenant,
   as they would not in a pod that has only its own device nodes. Without a usable claim the driver's own numbers stand, and every
   later question about memory is refused. */
#include "nvml_driver.h"

#include "claim.h"

typedef nvmlReturn_t (*count_fn)(unsigned int *);
typedef nvmlReturn_t (*by_index_fn)(unsigned int, nvmlDevice_t *);

static bool is_ours(nvmlDevice_t device) {
    int record;
    return nvml_device_index(device, &record) == NVML_SUCCESS;
}

/* The driver's number of the claim's card `wanted`; the number of the claim's cards in *count. -1 where it has no such card. */
static int real_index(by_index_fn by_index, unsigned int all, unsigned int wanted, unsigned int *count) {
    int found = -1;
    *count = 0;
    for (unsigned int i = 0; i < all; i++) {
        nvmlDevice_t device;
        if (by_index(i, &device) != NVML_SUCCESS || !is_ours(device))
            continue;
        if ((*count)++ == wanted)
            found = (int)i;
    }
    return found;
}

static nvmlReturn_t count_of(count_fn ask, by_index_fn by_index, unsigned int *count) {
    unsigned int all;
    if (!ask || !by_index)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    nvmlReturn_t result = ask(count ? &all : NULL);
    if (result == NVML_SUCCESS && claim_region())
        (void)real_index(by_index, all, 0, count);
    else if (result == NVML_SUCCESS)
        *count = all;
    return result;
}

static nvmlReturn_t handle_of(count_fn ask, by_index_fn by_index, unsigned int index, nvmlDevice_t *device) {
    unsigned int all, ours;
    if (!ask || !by_index)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    nvmlReturn_t result = ask(&all);
    if (result != NVML_SUCCESS)
        return result;
    if (!claim_region())
        return by_index(index, device);
    int real = real_index(by_index, all, index, &ours);
    return real < 0 ? NVML_ERROR_INVALID_ARGUMENT : by_index((unsigned int)real, device);
}

static count_fn count_v1(void) { return nvml_get() ? nvml_get()->nvmlDeviceGetCount : NULL; }
static count_fn count_v2(void) { return nvml_get() ? nvml_get()->nvmlDeviceGetCount_v2 : NULL; }
static by_index_fn by_index_v1(void) { return nvml_get() ? nvml_get()->nvmlDeviceGetHandleByIndex : NULL; }
static by_index_fn by_index_v2(void) { return nvml_get() ? nvml_get()->nvmlDeviceGetHandleByIndex_v2 : NULL; }

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return count_of(count_v1(), by_index_v1(), count); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) { return count_of(count_v2(), by_index_v2(), count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return handle_of(count_v1(), by_index_v1(), index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    return handle_of(count_v2(), by_index_v2(), index, device);
}

/* The number under which the claim sees this card: how many of its cards come before it in the driver's order. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    nvmlReturn_t result = NVML(nvmlDeviceGetIndex, device, index);
    unsigned int before;
    if (result != NVML_SUCCESS || !claim_region() || !by_index_v2())
        return result;
    (void)real_index(by_index_v2(), *index, 0, &before);
    *index = before;
    return is_ours(device) ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}
