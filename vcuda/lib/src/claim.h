/* The one claim of this process: found once, beside the library or at its fixed place. */
#ifndef VCUDA_CLAIM_H
#define VCUDA_CLAIM_H

#include "region.h"

/* Opens the claim at the first call. */
struct region *claim_open(void);
extern struct region *claim_ready; /* set once, by claim_open */

/* The claim's files; NULL when there are none that can be used: then everything is refused. */
static inline struct region *claim_region(void) {
    struct region *ready = __atomic_load_n(&claim_ready, __ATOMIC_ACQUIRE); /* pairs with the store in claim.c */
    return ready ? ready : claim_open();
}

/* In the child of every fork: forget what belongs to the parent. Each of the two libraries defines what that is. */
void claim_forget_in_child(void);

/* Count one refused call, where a sound ledger is there to count in. */
void claim_count_refusal(void);

#endif
