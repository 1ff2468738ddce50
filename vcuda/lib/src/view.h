/* What a program may see of a card: its limit as the card, never more free than is really free. One rule for CUDA and NVML. No CUDA types. */
#ifndef VCUDA_VIEW_H
#define VCUDA_VIEW_H

#include "config.h"

struct view {
    uint64_t total, used, free; /* bytes; used is the claim's, used + free <= total */
};

/* The claim's view of device `device`, given the card's own total and free bytes. */
struct view view_of(struct region *region, int device, uint64_t card_total, uint64_t card_free);

#endif
