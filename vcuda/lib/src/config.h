/* Limits as the agent wrote them, read without locks while the agent changes them. */
#ifndef VCUDA_CONFIG_H
#define VCUDA_CONFIG_H

#include "region.h"

struct limits {
    bool memory_limited, compute_limited;
    uint64_t memory_limit, overhead_bytes; /* bytes */
    uint32_t guarantee, ceiling, share;    /* per mille of the card's time; share is 1 to 1000 */
    double stretch;                        /* 1000 / share: what has to pass for each ns of GPU time */
    uint32_t others;                       /* active processes of other claims */
    double phi;                            /* 1 + sum of their activity */
    double m;                              /* slow multiplier, 0.1 to 8 */
    uint32_t busy;                         /* per mille */
    uint64_t beat_ns;                      /* the agent's last tick, node time */
};

/* Limits as they were read last; zero at first. Belongs to one thread. */
struct limits_cache {
    const struct region *region;
    int device;
    uint64_t generation; /* 0: never read */
    struct limits limits;
};

/* The limits of one device now, in *cache. NULL only when no sound record was ever read: then the caller is closed. */
const struct limits *config_read(struct limits_cache *cache, const struct region *region, int device);

/* The same, valid until *cache is used again: one load when nothing has changed. */
static inline const struct limits *config_cached(struct limits_cache *cache, const struct region *region, int device) {
    uint64_t generation = __atomic_load_n(&region->config->generation, __ATOMIC_ACQUIRE); /* raised after each write of a record */
    bool current = cache->generation == generation && cache->region == region && cache->device == device && generation;
    return current ? &cache->limits : config_read(cache, region, device);
}

/* The same in a cache of the calling thread, valid until its next call. */
const struct limits *config_limits(const struct region *region, int device);

/* The record's index for a card, -1 when the card is not part of the claim. Compared without the kind ("GPU-", "MIG-") and case. */
int config_find(const struct region *region, const char *uuid);

#endif
