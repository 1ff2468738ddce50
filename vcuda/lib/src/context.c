#include "context.h"

#include "backing.h"
#include "blocks.h"
#include "claim.h"
#include "ledger.h"
#include "overhead.h"

#include <pthread.h>
#include <stdatomic.h>

/* Reserved for the first context of a claim whose overhead nobody has measured yet; more than any current card takes. */
#define UNMEASURED_OVERHEAD (UINT64_C(512) << 20)

enum { LIMITS = 3 }; /* stack, printf, malloc: those that take memory, and the first in enum CUlimit */

#define ABSURD (UINT64_C(1) << 60) /* bytes; never granted, and sums of it do not wrap */

struct card {
    uint32_t contexts; /* made by hand, plus retains of the primary one */
    uint64_t charged;  /* bytes in the books for all that follows */
    uint64_t base;     /* of a context */
    uint64_t limits[LIMITS];
    uint32_t told; /* pages that the agent has measured, modules and all */
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

/* Bring the books up to what is known. False, and nothing changed, when there is no room; `forced`: it is on the card already. */
static bool settle(struct region *region, int device, bool forced) {
    struct card *card = &cards[device];
    uint64_t wanted = card->base + card->limits[0] + card->limits[1] + card->limits[2], told = card->told * BACKING_PAGE;
    wanted = !card->contexts ? 0 : told > wanted ? told : wanted;
    if (wanted > card->charged && forced)
        ledger_force(region, device, VCUDA_CLASS_CONTEXT, wanted - card->charged);
    else if (wanted > card->charged && ledger_reserve(region, device, VCUDA_CLASS_CONTEXT, wanted - card->charged))
        return false;
    else if (wanted < card->charged)
        ledger_release(region, device, VCUDA_CLASS_CONTEXT, card->charged - wanted);
    card->charged = wanted;
    return true;
}

static void drop_one(struct region *region, int device) {
    struct card *card = &cards[device];
    if (card->contexts && --card->contexts == 0) {
        settle(region, device, true);
        card->limits[0] = card->limits[1] = card->limits[2] = 0;
        __atomic_store_n(&card->measured, false, __ATOMIC_RELAXED);
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
    uint64_t known = learned(region, device);
    region_own_slot(region); /* whoever is first waits for the kernel here: for pages of the books, for a slot, and not under the lock */
    pthread_mutex_lock(&lock);
    if (card->contexts++ == 0) {
        card->base = known ? known : UNMEASURED_OVERHEAD;
        __atomic_store_n(&card->measured, known != 0, __ATOMIC_RELAXED);
        if (!settle(region, device, false)) {
            card->contexts = 0;
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    show_contexts(region, device);
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

/* What the driver's own books say of us beside what we asked for. Asked without the lock, since it may answer late. 0: nobody knows here, or
 * our threads asked for memory meanwhile, each time. */
static uint64_t weigh(struct region *region, int device) {
    char uuid[VCUDA_UUID_BYTES + 1] = "";
    __builtin_memcpy(uuid, region_record(region, device)->uuid, VCUDA_UUID_BYTES);
    for (int tries = 0; tries < 3; tries++) {
        uint64_t own = own_bytes(region, device), seen = overhead_own_bytes(uuid);
        if (own == own_bytes(region, device))
            return seen > own ? seen - own : 0;
    }
    return 0;
}

bool context_end(int device, CUresult result) {
    struct region *region = claim_region();
    if (!region || device < 0)
        return true;
    struct card *card = &cards[device];
    bool ask = result == CUDA_SUCCESS && !__atomic_load_n(&card->measured, __ATOMIC_RELAXED), fits = true;
    uint64_t weight = ask ? weigh(region, device) : 0;
    pthread_mutex_lock(&lock);
    if (weight && !card->measured) { /* it replaces the provisional overhead */
        card->base = weight;
        __atomic_store_n(&card->measured, true, __ATOMIC_RELAXED);
        learn(region, device, weight);
        fits = settle(region, device, false);
    }
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
    if (cards[device].contexts == 0) {
        cards[device].base = learned(region, device);
        cards[device].contexts = 1;
        settle(region, device, true);
        show_contexts(region, device);
    }
    pthread_mutex_unlock(&lock);
}

void context_told(int device) {
    struct region *region = claim_region();
    struct card *card = &cards[device];
    int slot = region ? region_own_slot(region) : -1;
    if (slot < 0 || !__atomic_load_n(&card->contexts, __ATOMIC_RELAXED))
        return;
    uint32_t pages = __atomic_load_n(&region_slot(region, slot)->overhead_pages[device], __ATOMIC_RELAXED); /* set by the agent */
    if (pages == __atomic_load_n(&card->told, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    if (!card->measured && pages && pages * BACKING_PAGE < card->base)
        card->base = pages * BACKING_PAGE;
    __atomic_store_n(&card->told, pages, __ATOMIC_RELAXED);
    settle(region, device, true);
    pthread_mutex_unlock(&lock);
}

/* Bytes that a limit takes above its default, which is part of the context: buffers as large as itself, or a stack for each thread that
 * the card can hold. The driver may take them as late as at a launch. */
static uint64_t limit_bytes(CUlimit limit, size_t value) {
    static _Atomic size_t defaults[LIMITS]; /* as found before the first change */
    size_t usual = atomic_load(&defaults[limit]);
    CUdevice card;
    int processors = 1, threads = 1;
    uint64_t bytes;
    if (!usual && DRIVER(cuCtxGetLimit, &usual, limit) == CUDA_SUCCESS)
        atomic_store(&defaults[limit], usual);
    if (limit == CU_LIMIT_STACK_SIZE && DRIVER(cuCtxGetDevice, &card) == CUDA_SUCCESS) {
        DRIVER(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, card);
        DRIVER(cuDeviceGetAttribute, &threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, card);
    }
    value = value > usual ? value - usual : 0;
    if (__builtin_mul_overflow(value, (uint64_t)processors * (uint64_t)threads, &bytes) || bytes > ABSURD)
        return ABSURD;
    return backing_bytes(bytes);
}

CUresult context_limit(CUlimit limit, size_t value) {
    struct region *region = claim_region();
    int device = device_current();
    if (!region || device < 0 || (int)limit >= LIMITS)
        return DRIVER(cuCtxSetLimit, limit, value);
    context_notice(device);
    uint64_t bytes = limit_bytes(limit, value);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    struct card *card = &cards[device];
    uint64_t before = card->limits[limit];
    card->limits[limit] = card->contexts > 1 && bytes < before ? before : bytes; /* another context may have the larger one */
    if (settle(region, device, false))
        result = DRIVER(cuCtxSetLimit, limit, value);
    if (result != CUDA_SUCCESS) {
        card->limits[limit] = before;
        settle(region, device, true);
    }
    pthread_mutex_unlock(&lock);
    return result;
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

CUcontext context_primary(int device, uint32_t released) {
    if (device < 0)
        return NULL;
    pthread_mutex_lock(&lock);
    struct card *card = &cards[device];
    card->retains -= released < card->retains ? released : card->retains;
    CUcontext ended = released && card->retains ? NULL : card->primary;
    pthread_mutex_unlock(&lock);
    return ended;
}

void context_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < VCUDA_MAX_DEVICES; i++)
        cards[i] = (struct card){0};
}
