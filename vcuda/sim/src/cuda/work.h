/*
 * One piece of work that a program gives to a stream, and how it gets there: at once, or into a graph while the stream
 * captures. The bytes of a copy move at the call, unless a function of the program is still to run: then in stream order.
 */
#ifndef TESSERA_SIM_WORK_H
#define TESSERA_SIM_WORK_H

#include "driver.h"
#include "launch.h"

enum move_kind { MOVE_COPY, MOVE_FILL };

/* A box of bytes: width bytes a row, height rows a slice, depth slices. FILL: `element` bytes of `value`, repeated. */
struct move {
  enum move_kind kind;
  uint64_t to, to_pitch, to_slice;
  uint64_t from, from_pitch, from_slice;
  uint64_t width, height, depth;
  uint32_t value, element;
};

enum work_kind { WORK_KERNEL, WORK_MOVE, WORK_HOST, WORK_RECORD, WORK_WAIT, WORK_EMPTY, WORK_GRAPH, WORK_ALLOC, WORK_FREE, WORK_CONDITION };

struct work {
  enum work_kind kind;
  enum sim_op_kind engine; /* KERNEL, MOVE */
  uint64_t cost_ns;
  struct launch launch; /* KERNEL: for those who ask a graph; params are the program's while it launches */
  struct move move;
  CUhostFn function; /* HOST */
  void *data;
  CUevent event; /* RECORD, WAIT */
  CUgraph graph; /* GRAPH: a copy of the child, owned by the node */
  uint64_t memory; /* ALLOC, FREE: address */
  struct condition *condition; /* CONDITION: likewise */
};

/* Rows of a copy may overlap nothing; to == from moves nothing. */
void move_run(const struct move *move);
uint64_t move_bytes(const struct move *move);

/* Gives the work to the stream (position: when it is complete) or to the graph that the stream captures (position 0). */
CUresult work_submit(struct CUstream_st *stream, const struct work *work, uint64_t *position);
/* The same without a look at capturing, and without the cost of a launch: for graph launches. */
CUresult work_enqueue(struct CUstream_st *stream, const struct work *work, uint64_t *position);

/* Functions of the program in stream order, run by one thread of ours. */
CUresult host_enqueue(struct CUstream_st *stream, CUhostFn function, void *data, uint64_t *position);
bool host_pending(void);

#endif
