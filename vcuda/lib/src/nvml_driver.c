#include "nvml_driver.h"

#include "beside.h"
#include "claim.h"
#include "config.h"

#include <stddef.h>

static const struct symbol symbols[] = {
#define HOOK(name, class, need) {#name, offsetof(struct nvml, name), need, NULL},
#define CALL(name, need) {#name, offsetof(struct nvml, name), need, NULL},
#define REFUSE(name, code)
#define PASS(name)
#include "nvml_hooks.def"
#undef HOOK
#undef CALL
#undef REFUSE
#undef PASS
};

static struct nvml functions;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(void) {
    usable = beside_look_up("driver/libnvidia-ml.so.1", symbols, sizeof symbols / sizeof *symbols, &functions);
}

const struct nvml *nvml_get(void) {
    pthread_once(&once, look_up);
    return usable ? &functions : NULL;
}

nvmlReturn_t nvml_device_index(nvmlDevice_t device, int *index) {
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
    struct region *region = claim_region();
    nvmlReturn_t result = NVML(nvmlDeviceGetUUID, device, uuid, sizeof uuid);
    if (result != NVML_SUCCESS)
        return result;
    *index = region ? config_find(region, uuid) : -1;
    return *index < 0 ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

void claim_forget_in_child(void) {
    /* This library takes no slot and holds no memory. */
}
