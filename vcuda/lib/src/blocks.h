/* What this process holds on a device: address -> device, class and bytes. Striped locks, no CUDA types. An address that is not here
 * is somebody else's business: the caller always asks the driver. */
#ifndef VCUDA_BLOCKS_H
#define VCUDA_BLOCKS_H

#include "vcuda/layout.h"

#include <stdbool.h>

struct block {
    uint64_t address;
    uint64_t bytes; /* charged; 0: the block shares a page, see backing.h */
    uint64_t owner; /* context that frees it when it is destroyed */
    int device;
    enum vcuda_class kind;
    enum {
        BLOCK_OWN,
        BLOCK_EXPORTED, /* other processes may have opened it */
        BLOCK_IMPORTED, /* charged to whoever exported it */
        BLOCK_MAPPED,   /* a piece of external memory, which it keeps alive: see vmm.h */
    } sharing;
};

/* Remember a block. False when there is no memory for the entry. */
bool blocks_put(struct block block);

/* Forget a block and hand it out. False when the address is unknown. */
bool blocks_take(uint64_t address, struct block *block);

/* Mark a block of our own as exported. False when there is none at that address or it was exported before; else a copy goes to *block. */
bool blocks_export(uint64_t address, struct block *block);

/* Forget all blocks of an owner, calling `each` for every one. */
void blocks_take_owned(uint64_t owner, void (*each)(const struct block *block));

/* In the child of a fork: the parent's blocks are not ours. */
void blocks_after_fork(void);

#endif
