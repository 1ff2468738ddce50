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
void pools_end(const struct CUctx_st *ctx);

#endif
