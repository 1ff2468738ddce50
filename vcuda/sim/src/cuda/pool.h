/*
 * Stream-ordered memory. A free takes effect when its stream has come to it; until then, and while the pool keeps it (up to
 * the release threshold), the memory stays charged to the card. The same stream may take it again at once.
 */
#ifndef TESSERA_SIM_POOL_H
#define TESSERA_SIM_POOL_H

#include "driver.h"

/* Frees that have come true take effect. `release`: give back what pools hold beyond their threshold, as a
 * synchronisation does. */
void pools_settle(bool release);
/* True when the address belonged to a pool: it is free now. */
bool pool_free_now(uint64_t address);

/* The allocator of graphs on a device. Memory of its own for whoever comes next in the stream; given back in stream order. */
CUmemoryPool pool_of_graphs(int device);
CUresult pool_take(CUmemoryPool pool, uint64_t bytes, struct CUstream_st *stream, uint64_t *out);
void pool_give(uint64_t address, struct CUstream_st *stream);
/* All that this stream has given back comes free only after what has been put into it since. */
void pool_later(struct CUstream_st *stream);

void pools_end(const struct CUctx_st *ctx);

#endif
