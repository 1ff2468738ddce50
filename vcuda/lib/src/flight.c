#include "flight.h"

#include <stdatomic.h>
#include <string.h>

#define LOOK_NS UINT64_C(100000000)   /* 100 ms */
#define SILENT_NS UINT64_C(20000000)  /* 20 ms: work of a process that stops launching counts so long, plus what was in flight */
#define ACTIVE 0.02                   /* of the period */

struct look {
    uint64_t at_ns;
    uint32_t siblings;
    double activity;
    uint64_t busy_ns[VCUDA_MAX_SLOTS];
};

static struct look looks[VCUDA_MAX_DEVICES];
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t finished[VCUDA_MAX_DEVICES]; /* of our own work, ns as estimated */

void flight_add(const struct region *region, int slot, int device, uint64_t est_ns, uint64_t now_ns) {
    struct vcuda_slot_device *mine = &region_slot(region, slot)->device[device];
    if (est_ns)
        __atomic_fetch_add(&mine->outstanding_ns, est_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&mine->last_launch_ns, now_ns, __ATOMIC_RELAXED);
    if (region_load(&mine->inflight_since_ns) == 0)
        __atomic_store_n(&mine->inflight_since_ns, now_ns, __ATOMIC_RELAXED);
}

void flight_idle(const struct region *region, int slot, int device, uint64_t now_ns) {
    struct vcuda_slot_device *mine = &region_slot(region, slot)->device[device];
    uint64_t since = __atomic_exchange_n(&mine->inflight_since_ns, 0, __ATOMIC_RELAXED);
    if (since && since < now_ns)
        __atomic_fetch_add(&mine->inflight_ns, now_ns - since, __ATOMIC_RELAXED);
}

void flight_done(const struct region *region, int slot, int device, uint64_t est_ns, uint64_t now_ns) {
    uint64_t *outstanding = &region_slot(region, slot)->device[device].outstanding_ns, old = region_load(outstanding), left;
    atomic_fetch_add(&finished[device], est_ns);
    do {
        left = old > est_ns ? old - est_ns : 0;
    } while (!__atomic_compare_exchange_n(outstanding, &old, left, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (left == 0)
        flight_idle(region, slot, device, now_ns);
}

/* Busy time of a slot so far. A period without an end lasts until its work can be expected to be over. */
static uint64_t busy_so_far(const struct vcuda_slot_device *process, uint32_t others, uint64_t now) {
    uint64_t since = region_load(&process->inflight_since_ns), sum = region_load(&process->inflight_ns);
    uint64_t over = region_load(&process->last_launch_ns) + SILENT_NS + 2 * (1 + (uint64_t)others) * region_load(&process->outstanding_ns);
    uint64_t end = now < over ? now : over;
    return since && end > since ? sum + (end - since) : sum;
}

static void look_again(const struct region *region, int own, int device, uint32_t others, uint64_t now) {
    struct look *look = &looks[device];
    double period = (double)(now - look->at_ns);
    bool first = look->at_ns == 0;
    look->siblings = 0;
    look->activity = 0;
    for (int i = 0; i < region_slots_used(region); i++) {
        const struct vcuda_slot *slot = region_slot(region, i);
        if (i == own || __atomic_load_n(&slot->epoch, __ATOMIC_ACQUIRE) == 0)
            continue;
        uint64_t busy = busy_so_far(&slot->device[device], others, now), before = look->busy_ns[i];
        double activity = first || busy < before ? 0 : (double)(busy - before) / period;
        look->busy_ns[i] = busy;
        if (activity > ACTIVE) {
            look->siblings++;
            look->activity += activity > 1 ? 1 : activity;
        }
    }
    __atomic_store_n(&look->at_ns, now, __ATOMIC_RELEASE);
}

struct surroundings flight_surroundings(const struct region *region, int slot, int device, const struct limits *limits, uint64_t now_ns) {
    struct look *look = &looks[device];
    uint64_t at = __atomic_load_n(&look->at_ns, __ATOMIC_ACQUIRE);
    if ((now_ns > at + LOOK_NS || at == 0) && pthread_mutex_trylock(&looking) == 0) {
        if (now_ns > look->at_ns + LOOK_NS)
            look_again(region, slot, device, limits->others, now_ns);
        pthread_mutex_unlock(&looking);
    }
    return (struct surroundings){
        .others = limits->others + look->siblings,
        .siblings = look->siblings,
        .phi = limits->phi + look->activity,
    };
}

struct watch flight_watch(const struct region *region, int slot, int device, const struct limits *limits, uint64_t now_ns) {
    /* What the claim was charged for and is not in flight any more is done; what of it we did ourselves is known here. */
    struct watch watch = {.at_ns = now_ns, .charged_ns = region_load(&region_device(region, device)->charged_ns), .rest_ns = atomic_load(&finished[device])};
    for (int i = 0; i < region_slots_used(region); i++) {
        watch.busy_ns += i == slot ? 0 : busy_so_far(&region_slot(region, i)->device[device], limits->others, now_ns);
        watch.rest_ns += region_load(&region_slot(region, i)->device[device].outstanding_ns);
    }
    return watch;
}

struct surroundings flight_watched(const struct watch *begun, const struct watch *ended, const struct limits *limits) {
    double period = ended->at_ns > begun->at_ns ? (double)(ended->at_ns - begun->at_ns) : 1;
    double activity = ended->busy_ns > begun->busy_ns ? (double)(ended->busy_ns - begun->busy_ns) / period : 0;
    activity = activity > ACTIVE ? activity : 0;
    uint32_t siblings = (uint32_t)activity + (activity > (uint32_t)activity);
    double done = (double)(int64_t)(ended->charged_ns - begun->charged_ns) / limits->m - (double)(int64_t)(ended->rest_ns - begun->rest_ns);
    return (struct surroundings){
        .others = limits->others + siblings, .siblings = siblings, .phi = limits->phi + activity, .own = (1 - done / period) / limits->phi};
}

void flight_after_fork(void) {
    pthread_mutex_init(&looking, NULL);
    memset(looks, 0, sizeof looks);
}
