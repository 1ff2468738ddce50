/* Conditional nodes of graphs: bodies of which a value chooses. */
#ifndef TESSERA_SIM_CONDITION_H
#define TESSERA_SIM_CONDITION_H

#include "graph.h"

/*
 * Kernels compute nothing here, so nobody sets the value: it is the handle's default. IF runs body 0, or body 1 when the
 * value is 0; SWITCH runs the body of that number; WHILE runs its body as often as the value says.
 */
struct condition {
  CUgraphConditionalNodeType type;
  unsigned value, count;
  CUgraph *bodies;
};

struct condition *condition_copy(const struct condition *condition);
void condition_drop(struct condition *condition);

/* Calls run for each body that the value chooses, in order. */
CUresult condition_run(const struct condition *condition, CUresult (*run)(CUgraph, struct CUstream_st *), struct CUstream_st *stream);

#endif
