/*
 * Stream-ordered memory. A free takes effect when its stream has come to it; until then, and while the pool keeps it (up to
 * the release threshold), the memory stays charged to the card. The same stream may take it again at once.
 */
#ifndef TESSERA_SIM_POOL_H
#define TESSERA_SIM_POOL_H

#include "driver.h"

struct CUmemPoolHandle_st {
  struct head head;
  uint32_t card;
  int device; /* -1: memory of the host */
  bool exportable, imported;
  uint64_t threshold, max_bytes;
  uint64_t used, used_high, reserved, reserved_high;
  int reuse[3];
};

/* A pool on a visible device, or of the host's memory (-1). max_bytes 0: as much as there is. NULL when there is no memory for it. */
CUmemoryPool pool_make(int device, uint64_t max_bytes);

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
