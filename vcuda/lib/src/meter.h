/* The compute limit: one theoretical-arrival-time word per claim and device decides when a launch may go. No CUDA types.
 *
 * A launch is charged its estimated GPU time over the share before it goes; what it really took is settled afterwards. */
#ifndef VCUDA_METER_H
#define VCUDA_METER_H

#include "flight.h"

struct ticket {
    struct vcuda_cost *cost; /* NULL: the claim's compute is not limited */
    double est_ns;           /* charged, before the multiplier */
    bool placed;             /* the kernel was not known: this launch holds the key's one place for an unmeasured launch */
    bool sample;             /* measure it */
    uint32_t weight;         /* launches represented by the sample */
    uint64_t at_ns;          /* node time of the charge */
    struct surroundings around;
    struct watch watch;      /* the siblings at the time of the launch */
};

/* Called while a launch waits: look whether own work has finished. */
typedef void (*meter_poll)(void *context);

/* Wait until a launch of `key` may go, and charge it. Bounded: 2 s for unknown kernels and for own work in flight, and the debt cap of 30 s.
 * False: the limits cannot be read, the launch must be refused. */
bool meter_admit(struct region *region, int slot, int device, uint64_t key, struct ticket *ticket, meter_poll poll, void *context);

/* Counters of the calling thread that are not in the ledger yet: up to 1 ms of them while it launches. Call where it waits. */
void meter_book(void);
void meter_after_fork(void);

/* The launch took `wall_ns` on the card. */
void meter_measured(struct region *region, int slot, int device, const struct ticket *ticket, double wall_ns);

/* No measurement will come for this launch (not sampled after all, or its events failed). */
void meter_unmeasured(struct region *region, int slot, int device, const struct ticket *ticket);

/* The driver refused the launch: the charge goes back. */
void meter_refund(struct region *region, int slot, int device, const struct ticket *ticket);

#endif
