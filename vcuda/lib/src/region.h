/* The mapped files of the claim, and this process's slot in them. Owns mapping, checking of headers, and the record locks by which the
 * kernel tells who lives. Knows neither CUDA nor what the numbers mean. */
#ifndef VCUDA_REGION_H
#define VCUDA_REGION_H

#include "vcuda/layout.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct region {
    const struct vcuda_config_header *config;
    struct vcuda_ledger_header *ledger;
    /* Taken from the headers when they were checked: a program that scribbles over its ledger must not lead us outside the mapping. */
    uint32_t config_header_size, record_size, record_count;
    uint32_t device_size, slot_size, slot_count, cost_size, cost_count;
    uint64_t devices_offset, slots_offset, costs_offset;
    int lock_fd; /* opened once and never closed: closing any descriptor of the file drops this process's record locks */
    uint64_t lock_device, lock_inode;
    char lock_path[4096];
    atomic_int slot; /* own slot, -1: none yet */
    pthread_mutex_t joining;
};

/* Map the files in `folder`. 0, -EPROTO for a layout that is not understood, or the -errno of the file that cannot be used. */
int region_open(struct region *region, const char *folder);

/* In the child of a fork: nothing of the parent's slot belongs to us. */
void region_forget_slot(struct region *region);


/* True when the program has closed our lock descriptor under us, and with it given up the slot. */
bool region_lock_lost(const struct region *region);

/* Take the lock file up again after region_lock_lost; the old slot is another's now. 0 or -errno. */
int region_reopen_lock(struct region *region);

/* Try to take a byte of `lock`; true when nobody else's living process holds it. */
bool region_try_lock(const struct region *region, int byte);
void region_unlock(const struct region *region, int byte);

/* Like the agent's question: does a living process, this one included, own the slot? Takes nothing. `fd` is any descriptor of `lock`. */
bool region_slot_alive(int fd, int slot);

/* Slots that were ever taken: [0, n). */
int region_slots_used(const struct region *region);

/* This process's slot, taken now if need be; -ENOSPC when all are taken, or another -errno. */
int region_take_slot(struct region *region);
static inline int region_own_slot(struct region *region) {
    int slot = atomic_load_explicit(&region->slot, memory_order_acquire);
    return slot >= 0 ? slot : region_take_slot(region);
}

static inline const struct vcuda_config_device *region_record(const struct region *region, int device) {
    const char *base = (const char *)region->config + region->config_header_size;
    return (const void *)(base + (size_t)device * region->record_size);
}

static inline struct vcuda_ledger_device *region_device(const struct region *region, int device) {
    return (void *)((char *)region->ledger + region->devices_offset + (size_t)device * region->device_size);
}

static inline struct vcuda_slot *region_slot(const struct region *region, int slot) {
    return (void *)((char *)region->ledger + region->slots_offset + (size_t)slot * region->slot_size);
}

static inline struct vcuda_cost *region_cost(const struct region *region, int device, uint32_t entry) {
    size_t index = (size_t)device * region->cost_count + entry;
    return (void *)((char *)region->ledger + region->costs_offset + index * region->cost_size);
}

/* Statistics: nothing is ordered by them. */
static inline uint64_t region_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

#endif
