/* Stream-ordered memory: the unit that is charged is the pool, for a freed block stays in its pool until the pool lets go. */
#ifndef VCUDA_POOL_H
#define VCUDA_POOL_H

#include "device.h"

struct pool;

struct pool_charge {
    struct pool *pool; /* NULL: not ours to charge */
    uint64_t reserved; /* bytes reserved for this call on top of what the pool was charged */
};

/* The default or current pool of the current context's card; NULL with DEVICE_UNKNOWN or DEVICE_UNLISTED in *device. */
CUmemoryPool pool_current(int *device);

/* Stands for the allocator that serves the memory nodes of graphs on the device. */
CUmemoryPool pool_of_graphs(CUdevice device);

/* Before the driver allocates `bytes` from the pool. Holds the pool's lock on success until pool_end. */
CUresult pool_begin(struct pool_charge *charge, CUmemoryPool handle, int device, uint64_t bytes);

/* The driver answered: charge what the pool really holds now. False: it has grown past the limit, the caller frees and trims. */
bool pool_end(struct pool_charge *charge);

/* A block may have gone back: the next look at the books asks the driver. */
void pool_freed(void);

/* Charge every pool that may have let go of memory for what it holds now. Cheap when nothing was freed since the last
 * synchronisation; `synchronised`: the program has just waited for its work, so all that was freed is back. */
void pool_refresh(bool synchronised);

/* A pool was made, with memory on `device` (DEVICE_UNKNOWN: the host's, which costs nothing); or is gone: its bytes are given back. */
void pool_exported(CUmemoryPool handle); /* other processes may open its blocks from now on */
void pool_made(CUmemoryPool handle, int device);
void pool_gone(CUmemoryPool handle);
int pool_device(CUmemoryPool handle); /* the current one for a pool that we have not seen made */

void pool_after_fork(void);

#endif
