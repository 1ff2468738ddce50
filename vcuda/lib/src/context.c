#include "context.h"

#include "blocks.h"
#include "claim.h"
#include "ledger.h"
#include "overhead.h"

#include <pthread.h>

/* Reserved for the first context of a claim whose overhead nobody has measured yet; more than any current card takes. */
#define UNMEASURED_OVERHEAD (UINT64_C(512) << 20)

struct card {
    uint32_t contexts; /* made by hand, plus retains of the primary one */
    uint64_t overhead; /* bytes charged for them */
    uint32_t retains;
    CUcontext primary;
    bool measured;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct card cards[VCUDA_MAX_DEVICES];

/* The overhead as the agent or an earlier process learned it; 0: nobody yet. */
static uint64_t learned(struct region *region, int device) {
    const struct limits *limits = config_limits(region, device);
    if (limits && limits->overhead_bytes)
        return limits->overhead_bytes;
    return __atomic_load_n(&region_device(region, device)->overhead_bytes, __ATOMIC_ACQUIRE); /* raised by learn */
}

static void learn(struct region *region, int device, uint64_t bytes) {
    uint64_t *word = &region_device(region, device)->overhead_bytes, old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (old < bytes && !__atomic_compare_exchange_n(word, &old, bytes, true, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
    }
}

static void show_contexts(struct region *region, int device) {
    int slot = region_own_slot(region);
    if (slot >= 0) /* read by NVML listings of the claim and by the agent */
        __atomic_store_n(&region_slot(region, slot)->device[device].contexts, cards[device].contexts, __ATOMIC_RELAXED);
}

static void drop_one(struct region *region, int device) {
    struct card *card = &cards[device];
    if (card->contexts && --card->contexts == 0) {
        ledger_release(region, device, VCUDA_CLASS_CONTEXT, card->overhead);
        card->overhead = 0;
        card->measured = false;
    }
    show_contexts(region, device);
}

CUresult context_begin(int device) {
    struct region *region = claim_region();
    if (device == DEVICE_UNKNOWN)
        return CUDA_SUCCESS;
    if (!region || device < 0)
        return claim_count_refusal(), CUDA_ERROR_OUT_OF_MEMORY;
    struct card *card = &cards[device];
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (card->contexts == 0) {
        uint64_t known = learned(region, device);
        card->overhead = known ? known : UNMEASURED_OVERHEAD;
        card->measured = known != 0;
        if (ledger_reserve(region, device, VCUDA_CLASS_CONTEXT, card->overhead))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        card->contexts++;
        show_contexts(region, device);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static uint64_t own_bytes(struct region *region, int device) {
    const struct vcuda_slot_device *mine = &region_slot(region, region_own_slot(region))->device[device];
    uint64_t sum = 0;
    for (int kind = 0; kind < VCUDA_CLASSES; kind++)
        sum += kind == VCUDA_CLASS_CONTEXT ? 0 : __atomic_load_n(&mine->bytes[kind], __ATOMIC_ACQUIRE);
    return sum;
}

/* Replace the provisional overhead by what the driver's own books say. False when the difference does not fit. */
static bool measure(struct region *region, int device) {
    struct card *card = &cards[device];
    char uuid[VCUDA_UUID_BYTES + 1] = "";
    __builtin_memcpy(uuid, region_record(region, device)->uuid, VCUDA_UUID_BYTES);
    uint64_t seen = overhead_own_bytes(uuid), own = own_bytes(region, device);
    if (seen <= own)
        return true; /* not known here: the provisional figure stays */
    uint64_t overhead = seen - own;
    if (overhead > card->overhead && ledger_reserve(region, device, VCUDA_CLASS_CONTEXT, overhead - card->overhead))
        return false;
    if (overhead < card->overhead)
        ledger_release(region, device, VCUDA_CLASS_CONTEXT, card->overhead - overhead);
    card->overhead = overhead;
    card->measured = true;
    learn(region, device, overhead);
    return true;
}

bool context_end(int device, CUresult result) {
    struct region *region = claim_region();
    if (!region || device < 0)
        return true;
    pthread_mutex_lock(&lock);
    bool fits = result != CUDA_SUCCESS || cards[device].measured || measure(region, device);
    if (result != CUDA_SUCCESS || !fits)
        drop_one(region, device);
    pthread_mutex_unlock(&lock);
    return fits;
}

void context_gone(int device) {
    struct region *region = claim_region();
    if (!region || device < 0)
        return;
    pthread_mutex_lock(&lock);
    drop_one(region, device);
    pthread_mutex_unlock(&lock);
}

void context_notice(int device) {
    struct region *region = claim_region();
    if (!region || __atomic_load_n(&cards[device].contexts, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    struct card *card = &cards[device];
    if (card->contexts == 0) {
        card->overhead = learned(region, device);
        card->contexts = 1;
        ledger_force(region, device, VCUDA_CLASS_CONTEXT, card->overhead);
        show_contexts(region, device);
    }
    pthread_mutex_unlock(&lock);
}

/* Contexts made by hand lie among the blocks as entries without bytes, found by their handle. */
void context_remember(CUcontext context, int device) {
    if (device >= 0)
        blocks_put((struct block){.address = (uint64_t)(uintptr_t)context, .device = device, .kind = VCUDA_CLASS_CONTEXT});
}

int context_forget(CUcontext context) {
    struct block block;
    return blocks_take((uint64_t)(uintptr_t)context, &block) ? block.device : DEVICE_UNKNOWN;
}

void context_primary_retained(int device, CUcontext context) {
    if (device < 0)
        return;
    pthread_mutex_lock(&lock);
    cards[device].retains++;
    cards[device].primary = context;
    pthread_mutex_unlock(&lock);
}

CUcontext context_primary_released(int device) {
    CUcontext last = NULL;
    if (device < 0)
        return NULL;
    pthread_mutex_lock(&lock);
    if (cards[device].retains && --cards[device].retains == 0)
        last = cards[device].primary;
    pthread_mutex_unlock(&lock);
    return last;
}

CUcontext context_primary(int device) {
    if (device < 0)
        return NULL;
    pthread_mutex_lock(&lock);
    CUcontext primary = cards[device].primary;
    pthread_mutex_unlock(&lock);
    return primary;
}

void context_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < VCUDA_MAX_DEVICES; i++)
        cards[i] = (struct card){0};
}
