/* Which kernel a launch runs: a key that is the same in every process of the claim and after a restart. */
#ifndef VCUDA_KERNEL_H
#define VCUDA_KERNEL_H

#include "driver.h"

#include <stdbool.h>
#include <stdint.h>

struct shape {
    unsigned int grid[3], block[3], shared_bytes;
};

/* From any struct of the driver that describes a launch. */
#define SHAPE_OF(p)                                           \
    (struct shape) {                                          \
        .grid = {(p)->gridDimX, (p)->gridDimY, (p)->gridDimZ}, \
        .block = {(p)->blockDimX, (p)->blockDimY, (p)->blockDimZ}, .shared_bytes = (p)->sharedMemBytes \
    }

/* Never 0. */
uint64_t kernel_key(CUfunction function, const struct shape *shape);

/* Handles may mean other kernels now: a module was unloaded. */
void kernel_forget(void);

/* Graphs: by the kernels in them and in their children. An executable graph that is updated as a whole, or in one node, is another kernel. */
void kernel_graph_made(CUgraphExec exec, CUgraph graph);
void kernel_graph_kernel(CUgraphExec exec, CUgraphNode node, CUfunction function, const struct shape *shape);
void kernel_graph_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
void kernel_graph_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
void kernel_graph_gone(CUgraphExec exec);
uint64_t kernel_graph_key(CUgraphExec exec);

void kernel_after_fork(void);

#endif
