/* Any bytes as `config`: refused, or read within bounds and obeyed. The ledger is sound. */
#include "config.h"
#include "ledger.h"
#include "stage.h"

#include <stdlib.h>
#include <string.h>

static void use(struct region *region, void *input) {
    (void)input;
    if (!region)
        return;
    for (int i = 0; i < (int)region->record_count; i++) {
        char uuid[VCUDA_UUID_BYTES + 1] = "";
        const struct limits *limits = config_limits(region, i);
        memcpy(uuid, region_record(region, i)->uuid, VCUDA_UUID_BYTES);
        if (config_find(region, uuid) < 0)
            abort();
        if (!limits)
            continue;
        if (limits->share < 1 || limits->share > 1000 || limits->m < 0.1 || limits->m > 8 || limits->phi < 1)
            abort();
        bool given = ledger_reserve(region, i, VCUDA_CLASS_LINEAR, 1 << 20) == 0;
        if (given && limits->memory_limited && limits->memory_limit < 1 << 20)
            abort();
        for (uint64_t launch = 0; launch < 8; launch++)
            stage_launch(region, i, 1 + launch % 2, 1e6);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vcuda_ledger_header header = stage_sound_ledger();
    if (size > 1 << 16)
        return 0;
    stage_config(data, size, size);
    stage_ledger(&header, sizeof header, VCUDA_LEDGER_SIZE);
    stage_run(use, NULL);
    return 0;
}
