/* Any bytes in `ledger`, before it is opened and while it is used: refused, or harmless to this process. The config is sound.
 * An input is a list: how many words of the header are written over, which and with what; then operations, some of which write
 * over the books. */
#include "ledger.h"
#include "stage.h"

#include <string.h>

struct input {
    const uint8_t *data;
    size_t left;
};

static uint64_t next(struct input *input, size_t bytes) {
    uint64_t value = 0;
    size_t size = bytes < input->left ? bytes : input->left;
    memcpy(&value, input->data, size);
    input->data += size;
    input->left -= size;
    return value;
}

/* The words that decide something: a card, the slots, one kernel's costs. */
static uint64_t *any_word(struct region *region, struct input *input) {
    static const size_t spans[] = {sizeof(struct vcuda_ledger_device), sizeof(struct vcuda_slot), sizeof(struct vcuda_cost), 128};
    unsigned area = (unsigned)next(input, 1) % 4, where = (unsigned)next(input, 2);
    char *base[] = {(char *)region_device(region, 0), (char *)region_slot(region, where >> 8 & 3), (char *)region_cost(region, 0, where >> 8 & 3),
                    (char *)region->ledger};
    return (uint64_t *)(void *)(base[area] + where % (spans[area] / 8) * 8);
}

static void act(struct region *region, struct input *input) {
    uint64_t bytes;
    switch (next(input, 1) % 7) {
    case 0:
    case 1:
        __atomic_store_n(any_word(region, input), next(input, 8), __ATOMIC_RELAXED);
        break;
    case 2:
        ledger_reserve(region, 0, (enum vcuda_class)(next(input, 1) % VCUDA_CLASSES), next(input, 8));
        break;
    case 3:
        ledger_release(region, 0, (enum vcuda_class)(next(input, 1) % VCUDA_CLASSES), next(input, 8));
        break;
    case 4:
        ledger_reclaim(region);
        break;
    case 5:
        bytes = ledger_used(region, 0);
        (void)bytes;
        break;
    default:
        stage_launch(region, 0, next(input, 1) % 4, (double)(next(input, 4) + 1));
    }
}

static void use(struct region *region, void *argument) {
    struct input *input = argument;
    while (region && input->left)
        act(region, input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size < 1024 ? size : 1024};
    unsigned char config[VCUDA_CONFIG_SIZE];
    struct vcuda_ledger_header header = stage_sound_ledger();
    for (unsigned words = (unsigned)next(&input, 1) % 4; words; words--) {
        size_t at = next(&input, 1) % 32 * 4;
        uint64_t value = next(&input, 4);
        memcpy((char *)&header + at, &value, 4);
    }
    stage_sound_config(config);
    stage_config(config, sizeof config, sizeof config);
    stage_ledger(&header, sizeof header, VCUDA_LEDGER_SIZE);
    stage_run(use, &input);
    return 0;
}
