/*
 * Private state of the simulated driver in one process: what a handle points to, and how an API call begins and ends.
 * Handles are never returned to the allocator, so a stale one is recognised instead of crashing the program.
 */
#ifndef TESSERA_SIM_DRIVER_H
#define TESSERA_SIM_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../books.h"
#include "../clock.h"
#include "../engine.h"
#include "../node.h"
#include "../queue.h"
#include "cuda.h"

#define SIM_EXPORT __attribute__((visibility("default")))

enum kind {
  KIND_CONTEXT = 0x43545831,
  KIND_STREAM = 0x53545231,
  KIND_EVENT = 0x45564e31,
  KIND_MODULE = 0x4d4f4431,
  KIND_FUNCTION = 0x46554e31,
  KIND_LIBRARY = 0x4c494231,
  KIND_KERNEL = 0x4b524e31,
  KIND_POOL = 0x504f4f31,
  KIND_ARRAY = 0x41525231,
  KIND_MIPMAP = 0x4d495031,
  KIND_PHYSICAL = 0x50485931,
  KIND_LINK = 0x4c4e4b31,
  KIND_GRAPH = 0x47525031,
  KIND_NODE = 0x4e4f4431,
  KIND_EXEC = 0x45584531,
  KIND_CAPTURE = 0x43415031,
  KIND_EXTERNAL = 0x45585431
};

struct head {
  uint32_t kind; /* 0: destroyed */
  uint32_t class; /* the kind it was made as, so that memory of one kind is used again for the same kind only */
  struct head *next_free;
};

/* Zeroed, from a pool of the kind. NULL when the host is out of memory. */
void *handle_new(enum kind kind, size_t size);
void handle_free(void *handle);
bool handle_is(const void *handle, enum kind kind);

struct capture;
struct node_set {
  CUgraphNode *nodes;
  size_t count;
};

struct CUctx_st {
  struct head head;
  uint32_t card;  /* index on the node */
  int device;     /* CUdevice: index among the visible */
  uint32_t sim;   /* index in node->ctxs */
  unsigned flags;
  bool primary;
  unsigned retained;
  struct CUstream_st *legacy;
  struct CUstream_st *streams; /* all of this context, linked by next */
  size_t limits[CU_LIMIT_MAX];
  uint64_t limit_bytes[CU_LIMIT_MAX]; /* charged to the card for limits above their defaults */
  CUfunc_cache cache;
  CUsharedconfig shared;
  uint64_t id;
};

struct CUstream_st {
  struct head head;
  struct CUctx_st *ctx;
  struct CUstream_st *next;
  uint32_t sim;
  unsigned flags;
  int priority;
  uint64_t id;
  uint64_t thread; /* owner of a per-thread default stream, else 0 */
  struct capture *capture; /* NULL: not capturing */
  struct node_set last;    /* nodes that the next captured work depends on */
};

struct CUevent_st {
  struct head head;
  struct CUctx_st *ctx;
  uint32_t sim;
  unsigned flags;
  bool opened;             /* another process's event */
  uint64_t serial;         /* of the node's event, which ends with the process that made it */
  struct capture *capture; /* last recorded in a capturing stream, NULL else */
  uint64_t capture_id;
  struct node_set after;   /* what that stream had captured by then */
};

struct driver {
  struct sim_handle node;
  bool opened, initialised, forked;
  int count; /* visible devices */
  uint32_t visible[SIM_MAX_CARDS];
  struct CUctx_st *primary[SIM_MAX_CARDS]; /* by visible index */
  unsigned primary_flags[SIM_MAX_CARDS];
  pthread_mutex_t lock; /* the objects of this process; taken before the node's lock, never after */
  int log;
  uint64_t next_id;
};
extern struct driver driver;

/* Opens the node once; whether there is one is in driver.opened. */
void driver_open(void);
int driver_version(void);

/* An argument of a call, for the log. */
struct argument {
  const void *value;
  size_t size;
};

/* An API call begins: not initialised, forked, or a fault make it end at once. Ends: the call log, and faults that come afterwards. */
CUresult api_begin(const char *name, bool needs_init);
CUresult api_end(const char *name, CUresult result, const struct argument *arguments, size_t count);
extern _Thread_local bool per_thread_default; /* this call came through a _ptds or _ptsz name */

/* The present context, INVALID_CONTEXT when there is none, or what the card's health makes of it. */
CUresult need_context(struct CUctx_st **ctx);
/* A stream handle with the meaning of 0, LEGACY and PER_THREAD applied. */
CUresult need_stream(CUstream handle, struct CUstream_st **stream);
CUresult need_device(CUdevice device, struct sim_card **card);
static inline struct sim_card *card_of(const struct CUctx_st *ctx) { return &driver.node.node->cards[ctx->card]; }
CUresult card_health(uint32_t card);

/* An event handle whose event is still there. */
bool event_is(const struct CUevent_st *event);

struct CUstream_st *stream_make(struct CUctx_st *ctx, uint32_t sim_flags, unsigned flags, int priority);
void stream_drop(struct CUstream_st *stream);

/* Puts an operation into a stream; waits for room as the hardware queue does. */
CUresult begin_enqueue(struct CUstream_st *stream); /* on success: the node's lock is held and there is room for one */
CUresult enqueue(struct CUstream_st *stream, enum sim_op_kind kind, uint64_t cost_ns, uint64_t *position);
CUresult enqueue_record(struct CUstream_st *stream, CUevent event, uint64_t *position);
CUresult enqueue_wait(struct CUstream_st *stream, CUevent event, uint64_t *position);
CUresult wait_stream(struct CUstream_st *stream, uint64_t position);
CUresult wait_context(struct CUctx_st *ctx);

/* Everything that memory of a context is made of; called when the context ends. */
void memory_end(struct CUctx_st *ctx);
void modules_end(struct CUctx_st *ctx);
void limits_begin(struct CUctx_st *ctx);
void limits_end(struct CUctx_st *ctx);

#endif
