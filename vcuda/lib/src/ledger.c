#include "ledger.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

enum {
    SNAPSHOT_TRIES = 200,
    RECLAIM_TRIES = 200,
    RECLAIM_PAUSE_NS = 100000, /* so at most 20 ms beside another reclaimer */
};
#define ABSURD (UINT64_C(1) << 56) /* bytes; no card has that much, and sums of it would wrap */
#define UNSURE (UINT64_C(1) << 46) /* bytes; more than any import, and all slots together do not wrap */

/* What this process holds, kept apart from the slot so that a slot lost with its lock can be filled again. */
static atomic_uint_fast64_t held[VCUDA_MAX_DEVICES][VCUDA_CLASSES];
static atomic_uint_fast64_t exported[VCUDA_MAX_DEVICES], imported[VCUDA_MAX_DEVICES];

/* begun and ended are read by whoever repairs the books: equal means that no operation of that slot is under way. */
static void begin(struct vcuda_slot *slot) {
    __atomic_fetch_add(&slot->begun, 1, __ATOMIC_SEQ_CST);
}

static void end(struct vcuda_slot *slot) {
    __atomic_fetch_add(&slot->ended, 1, __ATOMIC_SEQ_CST);
}

static void raise_peak(struct vcuda_ledger_device *books, uint64_t now) {
    uint64_t peak = __atomic_load_n(&books->peak_bytes, __ATOMIC_RELAXED);
    while (peak < now && !__atomic_compare_exchange_n(&books->peak_bytes, &peak, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static uint64_t slot_bytes(const struct vcuda_slot *slot, int device) {
    uint64_t sum = 0;
    for (int kind = 0; kind < VCUDA_CLASSES; kind++)
        sum += __atomic_load_n(&slot->device[device].bytes[kind], __ATOMIC_SEQ_CST);
    return sum;
}

/* Add to reserved_bytes unless that would pass `limit`. Partner: every other process of the claim doing the same. */
static bool add_reserved(struct vcuda_ledger_device *books, uint64_t bytes, uint64_t limit) {
    uint64_t old = __atomic_load_n(&books->reserved_bytes, __ATOMIC_ACQUIRE);
    do {
        if (old > limit || bytes > limit - old)
            return false;
    } while (!__atomic_compare_exchange_n(&books->reserved_bytes, &old, old + bytes, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    raise_peak(books, old + bytes);
    return true;
}

static bool take(struct region *region, int slot_index, int device, enum vcuda_class kind, uint64_t bytes, uint64_t limit) {
    struct vcuda_slot *slot = region_slot(region, slot_index);
    begin(slot);
    bool taken = add_reserved(region_device(region, device), bytes, limit);
    if (taken) {
        __atomic_fetch_add(&slot->device[device].bytes[kind], bytes, __ATOMIC_SEQ_CST);
        atomic_fetch_add(&held[device][kind], bytes);
    }
    end(slot);
    return taken;
}

/* Our lock went with a descriptor that the program closed: take a new slot and enter there all that we still hold. */
static int recover_slot(struct region *region) {
    int err = region_reopen_lock(region);
    int slot = err ? err : region_own_slot(region);
    for (int device = 0; slot >= 0 && device < VCUDA_MAX_DEVICES; device++)
        for (int kind = 0; kind < VCUDA_CLASSES; kind++) {
            uint64_t bytes = atomic_exchange(&held[device][kind], 0);
            if (bytes)
                take(region, slot, device, (enum vcuda_class)kind, bytes, UINT64_MAX);
        }
    for (int device = 0; slot >= 0 && device < VCUDA_MAX_DEVICES; device++) {
        struct vcuda_slot_device *mine = &region_slot(region, slot)->device[device];
        __atomic_fetch_add(&mine->exported_bytes, atomic_load(&exported[device]), __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&mine->imported_bytes, atomic_load(&imported[device]), __ATOMIC_SEQ_CST);
    }
    return slot;
}

static int usable_slot(struct region *region) {
    if (region_lock_lost(region))
        return recover_slot(region);
    int slot = region_own_slot(region);
    if (slot == -ENOSPC) {
        ledger_reclaim(region);
        slot = region_own_slot(region);
    }
    return slot;
}

static void deny(struct vcuda_ledger_device *books, uint64_t bytes) {
    __atomic_fetch_add(&books->denied_bytes, bytes, __ATOMIC_RELAXED); /* counters, read by the agent */
    __atomic_fetch_add(&books->denied_count, 1, __ATOMIC_RELAXED);
}

int ledger_reserve(struct region *region, int device, enum vcuda_class kind, uint64_t bytes) {
    const struct limits *limits = config_limits(region, device);
    int slot = limits ? usable_slot(region) : -EPROTO;
    if (slot < 0)
        return slot;
    uint64_t limit = limits->memory_limited ? limits->memory_limit : ABSURD;
    if (bytes <= ABSURD) {
        if (take(region, slot, device, kind, bytes, limit))
            return 0;
        ledger_reclaim(region);
        if (take(region, slot, device, kind, bytes, limit))
            return 0;
    }
    deny(region_device(region, device), bytes);
    return -ENOMEM;
}

int ledger_force(struct region *region, int device, enum vcuda_class kind, uint64_t bytes) {
    int slot = usable_slot(region);
    if (slot < 0)
        return slot;
    take(region, slot, device, kind, bytes, UINT64_MAX);
    return 0;
}

/* At most what is there: a program that scribbles over its ledger must not wrap the sum around. */
static uint64_t take_off(uint64_t *word, uint64_t bytes) {
    uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE), off;
    do {
        off = bytes < old ? bytes : old;
    } while (!__atomic_compare_exchange_n(word, &old, old - off, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return off;
}

void ledger_release(struct region *region, int device, enum vcuda_class kind, uint64_t bytes) {
    int index = usable_slot(region);
    if (index < 0)
        return;
    struct vcuda_slot *slot = region_slot(region, index);
    begin(slot);
    /* First the slot, then the sum: a kill in between leaves the sum too high, never too low. */
    uint64_t off = take_off(&slot->device[device].bytes[kind], bytes);
    take_off(&region_device(region, device)->reserved_bytes, off);
    atomic_fetch_sub(&held[device][kind], off);
    end(slot);
}

/* ---- memory between processes ---- */

/* A word of our slot and its copy here; both end at 0. */
static void change(uint64_t *word, atomic_uint_fast64_t *own, int64_t bytes) {
    if (bytes < 0) {
        atomic_fetch_sub(own, take_off(word, (uint64_t)-bytes));
        return;
    }
    __atomic_fetch_add(word, (uint64_t)bytes, __ATOMIC_SEQ_CST);
    atomic_fetch_add(own, (uint64_t)bytes);
}

void ledger_export(struct region *region, int device, int64_t bytes) {
    int slot = usable_slot(region);
    if (slot >= 0)
        change(&region_slot(region, slot)->device[device].exported_bytes, &exported[device], bytes);
}

void ledger_release_exported(struct region *region, int device, enum vcuda_class kind, uint64_t bytes) {
    int index = usable_slot(region);
    if (index < 0)
        return;
    struct vcuda_slot *slot = region_slot(region, index);
    begin(slot);
    /* First an orphan: a kill in between leaves it counted twice, until the repair. */
    __atomic_fetch_add(&region_device(region, device)->orphaned_bytes, bytes, __ATOMIC_SEQ_CST);
    atomic_fetch_sub(&held[device][kind], take_off(&slot->device[device].bytes[kind], bytes));
    change(&slot->device[device].exported_bytes, &exported[device], -(int64_t)bytes);
    end(slot);
    ledger_reclaim(region);
}

static void import(struct region *region, int device, int64_t bytes) {
    int slot = usable_slot(region);
    if (slot >= 0)
        change(&region_slot(region, slot)->device[device].imported_bytes, &imported[device], bytes);
}

void ledger_importing(struct region *region, int sign) {
    for (uint32_t device = 0; device < region->record_count; device++)
        import(region, (int)device, sign * (int64_t)UNSURE);
    if (sign < 0)
        ledger_reclaim(region);
}

bool ledger_import(struct region *region, int device, uint64_t bytes) {
    uint64_t paid = __atomic_load_n(&region_device(region, device)->orphaned_bytes, __ATOMIC_SEQ_CST);
    for (int i = 0; i < region_slots_used(region); i++)
        paid += __atomic_load_n(&region_slot(region, i)->device[device].exported_bytes, __ATOMIC_SEQ_CST);
    if (paid < bytes)
        return false;
    import(region, device, (int64_t)bytes);
    return true;
}

void ledger_import_end(struct region *region, int device, uint64_t bytes) {
    import(region, device, -(int64_t)bytes);
    ledger_reclaim(region);
}

/* Let go of orphans that nobody can hold any more. Only under the reclaiming lock, so that orphans never go down for two reasons. */
static void trim_orphans(struct region *region, int device) {
    struct vcuda_ledger_device *books = region_device(region, device);
    uint64_t orphans = __atomic_load_n(&books->orphaned_bytes, __ATOMIC_SEQ_CST), held_open = 0;
    int own = atomic_load(&region->slot);
    for (int i = 0; own >= 0 && orphans && held_open < ABSURD && i < region_slots_used(region); i++)
        held_open += smaller(ABSURD, __atomic_load_n(&region_slot(region, i)->device[device].imported_bytes, __ATOMIC_SEQ_CST));
    if (own < 0 || orphans <= held_open)
        return;
    begin(region_slot(region, own));
    take_off(&books->reserved_bytes, take_off(&books->orphaned_bytes, orphans - held_open));
    end(region_slot(region, own));
}

uint64_t ledger_slot_bytes(const struct region *region, int slot, int device) {
    return slot_bytes(region_slot(region, slot), device);
}

uint64_t ledger_used(const struct region *region, int device) {
    uint64_t dead = 0, sum;
    for (int i = 0; i < region_slots_used(region); i++) {
        uint64_t bytes = ledger_slot_bytes(region, i, device);
        if (bytes && !region_slot_alive(region->lock_fd, i))
            dead += bytes - smaller(bytes, __atomic_load_n(&region_slot(region, i)->device[device].exported_bytes, __ATOMIC_SEQ_CST));
    }
    sum = __atomic_load_n(&region_device(region, device)->reserved_bytes, __ATOMIC_ACQUIRE);
    return sum > dead ? sum - dead : 0;
}

/* ---- the dead ---- */

struct dead {
    bool locked[VCUDA_MAX_SLOTS]; /* slots whose byte we took because nobody living holds it */
    bool torn;                    /* one of them died inside an operation */
};

/* Give back the bytes of a dead slot whose byte we hold. Exchange first: who is killed in between leaves the sum too high. */
static uint64_t drain(struct region *region, struct vcuda_slot *slot) {
    uint64_t total = 0;
    begin(slot);
    for (int device = 0; device < VCUDA_MAX_DEVICES; device++) {
        uint64_t bytes = 0, shared = smaller(__atomic_load_n(&slot->device[device].exported_bytes, __ATOMIC_SEQ_CST), slot_bytes(slot, device));
        __atomic_fetch_add(&region_device(region, device)->orphaned_bytes, shared, __ATOMIC_SEQ_CST);
        for (int kind = 0; kind < VCUDA_CLASSES; kind++)
            bytes += __atomic_exchange_n(&slot->device[device].bytes[kind], 0, __ATOMIC_SEQ_CST);
        take_off(&region_device(region, device)->reserved_bytes, bytes - smaller(bytes, shared));
        __atomic_store_n(&slot->device[device].exported_bytes, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&slot->device[device].imported_bytes, 0, __ATOMIC_SEQ_CST);
        total += bytes;
        __atomic_store_n(&slot->device[device].inflight_since_ns, 0, __ATOMIC_RELAXED); /* read by siblings and the agent */
        __atomic_store_n(&slot->device[device].outstanding_ns, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->device[device].unmeasured, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->device[device].waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->device[device].contexts, 0, __ATOMIC_RELAXED);
    }
    end(slot);
    return total;
}

static void find_dead(struct region *region, struct dead *dead) {
    int own = atomic_load(&region->slot), used = region_slots_used(region);
    for (int i = 0; i < used; i++) {
        struct vcuda_slot *slot = region_slot(region, i);
        if (i == own || __atomic_load_n(&slot->epoch, __ATOMIC_ACQUIRE) == 0 || !region_try_lock(region, i))
            continue;
        dead->locked[i] = true;
        bool torn = __atomic_load_n(&slot->begun, __ATOMIC_SEQ_CST) != __atomic_load_n(&slot->ended, __ATOMIC_SEQ_CST);
        dead->torn |= torn;
        if (drain(region, slot) || torn)
            __atomic_fetch_add(&region->ledger->reclaimed_slots, 1, __ATOMIC_RELAXED);
    }
}

struct snapshot {
    uint64_t operations; /* sum of `begun` over the living; it only grows, so an equal sum means that nothing moved */
    bool quiet;
};

static struct snapshot living_operations(const struct region *region, const struct dead *dead, int used) {
    struct snapshot snapshot = {.quiet = true};
    for (int i = 0; i < used; i++) {
        const struct vcuda_slot *slot = region_slot(region, i);
        if (dead->locked[i])
            continue;
        uint64_t ended = __atomic_load_n(&slot->ended, __ATOMIC_SEQ_CST), begun = __atomic_load_n(&slot->begun, __ATOMIC_SEQ_CST);
        snapshot.operations += begun;
        snapshot.quiet &= begun == ended;
    }
    return snapshot;
}

static uint64_t living_bytes(const struct region *region, int device, int used) {
    uint64_t sum = __atomic_load_n(&region_device(region, device)->orphaned_bytes, __ATOMIC_SEQ_CST);
    for (int i = 0; i < used; i++)
        sum += ledger_slot_bytes(region, i, device);
    return sum;
}

/* Subtract what the dead added to the sum and not to their slot. Exact: the surplus belongs to the dead alone when, around the reading of
 * sum and slots, no living slot has an operation under way or begun. If the sum has changed by the time of the exchange, try again. */
static bool repair_device(struct region *region, const struct dead *dead, int device) {
    uint64_t *reserved = &region_device(region, device)->reserved_bytes;
    for (int i = 0; i < SNAPSHOT_TRIES; i++) {
        int used = region_slots_used(region);
        struct snapshot before = living_operations(region, dead, used);
        uint64_t sum = __atomic_load_n(reserved, __ATOMIC_SEQ_CST), slots = living_bytes(region, device, used);
        struct snapshot after = living_operations(region, dead, used);
        if (before.quiet && after.quiet && before.operations == after.operations && region_slots_used(region) == used &&
            (sum == slots || __atomic_compare_exchange_n(reserved, &sum, slots, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)))
            return true;
        sched_yield();
    }
    return false;
}

static bool repair(struct region *region, const struct dead *dead) {
    for (int device = 0; device < VCUDA_MAX_DEVICES; device++)
        if (!repair_device(region, dead, device))
            return false; /* the living are too busy just now: the torn slots stay marked, the next one who needs room goes on */
    for (int i = 0; i < VCUDA_MAX_SLOTS; i++)
        if (dead->locked[i]) {
            struct vcuda_slot *slot = region_slot(region, i);
            __atomic_store_n(&slot->ended, __atomic_load_n(&slot->begun, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
        }
    return true;
}

static void reclaim_locked(struct region *region) {
    struct dead dead = {0};
    find_dead(region, &dead);
    if (!dead.torn || repair(region, &dead))
        for (uint32_t device = 0; device < region->record_count; device++)
            trim_orphans(region, (int)device);
    for (int i = 0; i < VCUDA_MAX_SLOTS; i++)
        if (dead.locked[i])
            region_unlock(region, i);
}

void ledger_reclaim(struct region *region) {
    /* Record locks do not keep threads of one process apart, and one that joins must not be handed a slot that we hold as dead. */
    pthread_mutex_lock(&region->joining);
    for (int i = 0; i < RECLAIM_TRIES; i++) {
        if (region_try_lock(region, VCUDA_RECLAIM_BYTE)) {
            reclaim_locked(region);
            region_unlock(region, VCUDA_RECLAIM_BYTE);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = RECLAIM_PAUSE_NS}, NULL); /* another process is at it: its work serves us too */
    }
    pthread_mutex_unlock(&region->joining);
}

void ledger_after_fork(struct region *region) {
    for (int device = 0; device < VCUDA_MAX_DEVICES; device++) {
        for (int kind = 0; kind < VCUDA_CLASSES; kind++)
            atomic_store(&held[device][kind], 0);
        atomic_store(&exported[device], 0);
        atomic_store(&imported[device], 0);
    }
    region_forget_slot(region);
}
