/* Contexts, streams and events in the node state, and the operations in their queues. All need the node's lock. */
#ifndef TESSERA_SIM_QUEUE_H
#define TESSERA_SIM_QUEUE_H

#include "state.h"

/* Each answers SIM_NONE when the table is full. */
uint32_t sim_ctx_new(struct sim_node *node, uint32_t proc, uint32_t card);
uint32_t sim_stream_new(struct sim_node *node, uint32_t ctx, uint32_t flags, int32_t priority);
uint32_t sim_event_new(struct sim_node *node, uint32_t proc, uint32_t card);

/* Work still queued is dropped. */
void sim_ctx_free(struct sim_node *node, uint32_t ctx);
void sim_stream_free(struct sim_node *node, uint32_t stream);
/* The entry is free once no queue names it. */
void sim_event_destroy(struct sim_node *node, uint32_t event);

bool sim_has_room(const struct sim_node *node, uint32_t stream);

/* Appends; answers the operation's position: it is complete once stream->head >= position. */
uint64_t sim_push(struct sim_node *node, uint32_t stream, enum sim_op_kind kind, uint64_t cost_ns);
uint64_t sim_push_record(struct sim_node *node, uint32_t stream, uint32_t event);
uint64_t sim_push_wait(struct sim_node *node, uint32_t stream, uint32_t event);

/* Completes the operation at the head. */
void sim_pop(struct sim_node *node, uint32_t stream);

static inline struct sim_op *sim_head(struct sim_stream *stream) {
  return stream->head == stream->tail ? (struct sim_op *)0 : &stream->ring[stream->head % SIM_RING];
}

/* True when nothing but an engine (or the program, for HOST) stands between the head and its completion. */
bool sim_head_ready(struct sim_node *node, uint32_t stream);

/* Rebuilds what can be derived, after a process died inside the lock. */
void sim_queue_repair(struct sim_node *node);

#endif
