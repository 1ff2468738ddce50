/* Limits as the agent wrote them, read without locks while the agent changes them. */
#ifndef VCUDA_CONFIG_H
#define VCUDA_CONFIG_H

#include "region.h"

struct limits {
    bool memory_limited, compute_limited;
    uint64_t memory_limit, overhead_bytes; /* bytes */
    uint32_t guarantee, ceiling, share;    /* per mille of the card's time; share is 1 to 1000 */
    uint32_t others;                       /* active processes of other claims */
    double phi;                            /* 1 + sum of their activity */
    double m;                              /* slow multiplier, 0.1 to 8 */
    uint32_t busy;                         /* per mille */
    uint64_t beat_ns;                      /* the agent's last tick, node time */
};

/* The limits of one device now. NULL only when no sound record was ever read: then the caller is closed.
 * The answer belongs to the calling thread and stays valid until its next call. One load when nothing has changed. */
const struct limits *config_limits(const struct region *region, int device);

/* The record's index for a card, -1 when the card is not part of the claim. Compared without the kind ("GPU-", "MIG-") and case. */
int config_find(const struct region *region, const char *uuid);

#endif
