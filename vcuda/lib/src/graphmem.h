/* Memory nodes of graphs: nothing until a launch or an upload maps physical memory, which the driver's allocator of the device then
 * keeps until it is trimmed. That allocator is charged like a pool. */
#ifndef VCUDA_GRAPHMEM_H
#define VCUDA_GRAPHMEM_H

#include "pool.h"

#include "vcuda/layout.h"

struct graphmem {
    struct pool_charge charges[VCUDA_MAX_DEVICES];
    int count;
};

/* An executable graph was made of `graph` or updated from it; destroyed. */
void graphmem_made(CUgraphExec exec, CUgraph graph);
void graphmem_gone(CUgraphExec exec);

/* Around a launch or upload. CUDA_ERROR_OUT_OF_MEMORY: what the graph allocates does not fit, do not launch. */
CUresult graphmem_begin(struct graphmem *memory, CUgraphExec exec, CUstream stream);
CUresult graphmem_end(struct graphmem *memory, CUresult result);

/* The allocator was trimmed. */
void graphmem_trimmed(void);

void graphmem_after_fork(void);

#endif
