/*
 * Memory that graphs allocate. An allocation node has a fixed address; physical memory is behind it only from a launch (or an upload) to
 * the free: a node of the same or another graph, cuMemFree, or the next launch of a graph that frees by itself. It comes from one
 * allocator per device, which keeps what was freed until cuDeviceGraphMemTrim, and gives it to whichever graph comes next in a stream.
 */
#ifndef TESSERA_SIM_GRAPH_MEMORY_H
#define TESSERA_SIM_GRAPH_MEMORY_H

#include "graph.h"

/* Nodes hold their allocation; it is gone with the last of them, when nothing is behind it. */
void graph_memory_hold(uint64_t address);
void graph_memory_drop(uint64_t address);

/* True for a graph that allocates or frees: it cannot be cloned, be a child, or lose nodes and edges. */
bool graph_memory_in(CUgraph graph);

/* Before a launch: memory behind all allocations of the graph. After it: frees take effect when the stream has come so far. */
CUresult graph_memory_begin(CUgraphExec exec, struct CUstream_st *stream);
void graph_memory_end(CUgraphExec exec, struct CUstream_st *stream);

/* The memory is there, and kept for the next launch in that stream. */
CUresult graph_memory_upload(CUgraphExec exec, struct CUstream_st *stream);

/* cuMemAllocAsync and cuMemFreeAsync in a capture. */
CUresult graph_memory_capture(struct CUstream_st *stream, int device, uint64_t bytes, uint64_t *out);
CUresult graph_memory_capture_free(struct CUstream_st *stream, uint64_t address);

/* True when the address is a graph's allocation: then *result is what freeing it in that stream's order answers. */
bool graph_memory_free(uint64_t address, struct CUstream_st *stream, CUresult *result);

#endif
