/* A kernel launch as the program describes it. */
#ifndef TESSERA_SIM_LAUNCH_H
#define TESSERA_SIM_LAUNCH_H

#include "driver.h"

struct launch {
  CUfunction function;
  unsigned grid[3], block[3];
  unsigned shared;
  CUstream stream;
  void **params, **extra;
  bool cooperative;
};

/* The context a function belongs to, NULL for a kernel of a library. */
struct CUctx_st *function_context(CUfunction function);

struct work;
/* Checks the launch against the card of the context and works out what it costs. */
CUresult launch_describe(const struct launch *launch, struct CUctx_st *ctx, struct work *work);

#endif
