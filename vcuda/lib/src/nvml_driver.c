#include "nvml_driver.h"

#include "beside.h"
#include "claim.h"
#include "clock.h"
#include "config.h"
#include "log.h"

#include <stddef.h>

enum need { REQUIRED, OPTIONAL };

static const struct symbol {
    const char *name;
    size_t offset; /* of its pointer in struct nvml */
    enum need need;
} symbols[] = {
#define HOOK(name, class, need) {#name, offsetof(struct nvml, name), need},
#define CALL(name, need) {#name, offsetof(struct nvml, name), need},
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
    void *handle = beside_open("driver/libnvidia-ml.so.1");
    if (!handle) {
        log_trouble(TROUBLE_NO_DRIVER, "driver/libnvidia-ml.so.1 cannot be opened");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void **pointer = (void **)((char *)&functions + symbols[i].offset);
        *pointer = beside_symbol(handle, symbols[i].name);
        if (symbols[i].need == REQUIRED && !*pointer) {
            log_trouble(TROUBLE_NO_DRIVER, symbols[i].name);
            return;
        }
    }
    clock_use((clock_now_fn)beside_symbol(handle, "tesseraSimNow"), (clock_sleep_fn)beside_symbol(handle, "tesseraSimSleepUntil"));
    usable = true;
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
