/* This process's work on the card: how much is in flight, since when, and who of its siblings is active. No CUDA types. */
#ifndef VCUDA_FLIGHT_H
#define VCUDA_FLIGHT_H

#include "config.h"
#include "cost.h"

/* A launch of about `est_ns` went to the card. */
void flight_add(const struct region *region, int slot, int device, uint64_t est_ns, uint64_t now_ns);

/* `est_ns` of it are finished. */
void flight_done(const struct region *region, int slot, int device, uint64_t est_ns, uint64_t now_ns);

/* Nothing is in flight any more, whatever the sums say. */
void flight_idle(const struct region *region, int slot, int device, uint64_t now_ns);

/* Who else uses the card: other claims as the agent sees them, siblings as the ledger shows them. Looks anew every 100 ms. */
struct surroundings flight_surroundings(const struct region *region, int slot, int device, const struct limits *limits, uint64_t now_ns);

/* Watch the siblings from one launch to its end: busy time of all of them so far; what the claim was charged, and what of it they have not
 * done; at node time at_ns. */
struct watch {
    uint64_t at_ns, busy_ns, charged_ns, rest_ns;
};
struct watch flight_watch(const struct region *region, int slot, int device, const struct limits *limits, uint64_t now_ns);

/* Who could have disturbed what ran since `begun`: other claims as above, siblings as they really were. */
struct surroundings flight_watched(const struct watch *begun, const struct watch *ended, const struct limits *limits);

void flight_after_fork(void);

#endif
