/* Which kernel a launch runs: a key that is the same in every process of the claim and after a restart. */
#ifndef VCUDA_KERNEL_H
#define VCUDA_KERNEL_H

#include "driver.h"

#include <stdbool.h>
#include <stdint.h>

struct shape {
    unsigned int grid[3], block[3], shared_bytes;
};

/* Never 0. */
uint64_t kernel_key(CUfunction function, const struct shape *shape);

/* Handles may mean other kernels now: a module was unloaded. */
void kernel_forget(void);

/* Graphs: by the number of nodes and the kernels in it. `update` of an executable graph makes it unknown again. */
void kernel_graph_made(CUgraphExec exec, CUgraph graph);
void kernel_graph_gone(CUgraphExec exec);
uint64_t kernel_graph_key(CUgraphExec exec);

void kernel_after_fork(void);

#endif
