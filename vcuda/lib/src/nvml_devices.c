/* Which cards there are: those of the claim, numbered from 0 in the driver's order. A node's other cards do not exist for a tenant,
   as they would not in a pod that has only its own device nodes. Without a usable claim the driver's own numbers stand, and every
   later question about memory is refused. */
#include "nvml_driver.h"

#include "claim.h"

typedef nvmlReturn_t (*count_fn)(unsigned int *);
typedef nvmlReturn_t (*by_index_fn)(unsigned int, nvmlDevice_t *);

static bool is_listed(nvmlDevice_t device) {
    int record;
    return nvml_device_index(device, &record) == NVML_SUCCESS;
}

/* The claim's MIG device number `wanted` on a card that is not its own as a whole; their number in *count. */
static nvmlReturn_t part_of(nvmlDevice_t card, unsigned int wanted, nvmlDevice_t *found, unsigned int *count) {
    unsigned int most = 0;
    nvmlReturn_t result = NVML(nvmlDeviceGetMaxMigDeviceCount, card, &most), answer = NVML_ERROR_NOT_FOUND;
    *count = 0;
    for (unsigned int i = 0; result == NVML_SUCCESS && i < most; i++) {
        nvmlDevice_t part;
        if (NVML(nvmlDeviceGetMigDeviceHandleByIndex, card, i, &part) != NVML_SUCCESS || !is_listed(part))
            continue;
        if ((*count)++ == wanted) {
            *found = part;
            answer = NVML_SUCCESS;
        }
    }
    return answer;
}

/* A card of the claim, or one of which the claim has a part. */
static bool is_ours(nvmlDevice_t device) {
    nvmlDevice_t part;
    unsigned int parts;
    return is_listed(device) || part_of(device, 0, &part, &parts) == NVML_SUCCESS;
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

#define FUNCTION(name) (nvml_get() ? nvml_get()->name : NULL)

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) {
    return count_of(FUNCTION(nvmlDeviceGetCount), FUNCTION(nvmlDeviceGetHandleByIndex), count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    return count_of(FUNCTION(nvmlDeviceGetCount_v2), FUNCTION(nvmlDeviceGetHandleByIndex_v2), count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return handle_of(FUNCTION(nvmlDeviceGetCount), FUNCTION(nvmlDeviceGetHandleByIndex), index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    return handle_of(FUNCTION(nvmlDeviceGetCount_v2), FUNCTION(nvmlDeviceGetHandleByIndex_v2), index, device);
}

/* The number under which the claim sees this card: how many of its cards come before it in the driver's order. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    nvmlReturn_t result = NVML(nvmlDeviceGetIndex, device, index);
    unsigned int before;
    if (result != NVML_SUCCESS || !claim_region() || !FUNCTION(nvmlDeviceGetHandleByIndex_v2))
        return result;
    (void)real_index(FUNCTION(nvmlDeviceGetHandleByIndex_v2), *index, 0, &before);
    *index = before;
    return is_ours(device) ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *found) {
    unsigned int parts;
    if (!found || !claim_region() || is_listed(device))
        return NVML(nvmlDeviceGetMigDeviceHandleByIndex, device, index, found);
    return part_of(device, index, found, &parts);
}

/* A card of others does not exist, by whatever name it is asked for. */
static nvmlReturn_t only_ours(nvmlReturn_t result, nvmlDevice_t *device) {
    if (result != NVML_SUCCESS || !claim_region() || is_ours(*device))
        return result;
    *device = NULL;
    return NVML_ERROR_NOT_FOUND;
}

#define FOUND_BY(name, type)                                          \
    nvmlReturn_t name(type *what, nvmlDevice_t *device) {             \
        return only_ours(NVML(name, what, device), device);           \
    }

FOUND_BY(nvmlDeviceGetHandleByUUID, const char)
FOUND_BY(nvmlDeviceGetHandleByUUIDV, const nvmlUUID_t)
FOUND_BY(nvmlDeviceGetHandleBySerial, const char)
FOUND_BY(nvmlDeviceGetHandleByPciBusId, const char)
FOUND_BY(nvmlDeviceGetHandleByPciBusId_v2, const char)
