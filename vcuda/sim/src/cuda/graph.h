/* Graphs of work. A node remembers what it does as `struct work`; a graph that runs is a sorted copy. */
#ifndef TESSERA_SIM_GRAPH_H
#define TESSERA_SIM_GRAPH_H

#include "work.h"

struct CUgraphNode_st {
  struct head head;
  CUgraph graph;
  CUgraphNode next;
  CUgraphNode origin;    /* in a copy: the node it was copied from */
  struct work work;
  struct node_set before; /* what it depends on */
  void *values, **pointers; /* KERNEL: own copy of the parameters */
  CUDA_MEMCPY3D copy;       /* MOVE that copies, as asked for */
  bool disabled;
  unsigned mark; /* scratch of the sort */
};

struct CUgraph_st {
  struct head head;
  CUgraphNode nodes, *last; /* in order of creation */
  size_t count;
};

struct CUgraphExec_st {
  struct head head;
  CUgraph graph; /* own copy, nodes in an order in which they may run */
  unsigned long long flags;
};

CUgraph graph_new(void);
void graph_drop(CUgraph graph);
void node_drop(CUgraphNode node); /* which no list holds any more */
CUgraph graph_copy(CUgraph graph);

/* Adds a node; copies what it needs of `work`. */
CUresult graph_add(CUgraph graph, const CUgraphNode *before, size_t count, const struct work *work, CUgraphNode *out);
/* Replaces what the node does. */
CUresult node_set_work(CUgraphNode node, const struct work *work);

/* The kernel of cuGraphAddNode's parameters in the older form. */
static inline CUDA_KERNEL_NODE_PARAMS kernel_params(const CUDA_KERNEL_NODE_PARAMS_v3 *p) {
  return (CUDA_KERNEL_NODE_PARAMS){.func = p->func, .gridDimX = p->gridDimX, .gridDimY = p->gridDimY, .gridDimZ = p->gridDimZ,
                                   .blockDimX = p->blockDimX, .blockDimY = p->blockDimY, .blockDimZ = p->blockDimZ,
                                   .sharedMemBytes = p->sharedMemBytes, .kernelParams = p->kernelParams, .extra = p->extra,
                                   .kern = p->kern, .ctx = p->ctx};
}

bool node_set_has(const struct node_set *set, const struct CUgraphNode_st *node);
CUresult node_set_add(struct node_set *set, CUgraphNode node);
CUresult node_set_copy(struct node_set *to, const struct node_set *from);
void node_set_clear(struct node_set *set);

#endif
