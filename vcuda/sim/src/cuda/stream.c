#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture.h"
#include "impl.h"
#include "pool.h"
#include "work.h"

/* What one stream had been given when a wait for its context began: later work of other threads is not waited for. */
struct mark {
  uint32_t stream;
  uint64_t position;
};

struct wait {
  uint32_t card;
  const struct CUctx_st *ctx;        /* what all its streams had, or */
  const struct mark *marks;
  uint32_t mark_count;
  const struct CUstream_st *stream;  /* up to a position of one stream, or */
  uint32_t event;                    /* a record of an event */
  uint64_t position;
};

static bool lost(const struct wait *wait) { return driver.node.node->cards[wait->card].health == SIM_LOST; }

static bool stream_ready(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  return lost(wait) || handle->node->streams[wait->stream->sim].head >= wait->position;
}

static uint64_t stream_earliest(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  return sim_earliest(handle->node, wait->stream->sim, wait->position);
}

/* A stream that was destroyed meanwhile is done, also where its place has another one by now. */
static bool mark_passed(const struct sim_node *node, const struct wait *wait, const struct mark *mark) {
  const struct sim_stream *stream = &node->streams[mark->stream];
  return stream->ctx != wait->ctx->sim || stream->tail < mark->position || stream->head >= mark->position;
}

static bool context_ready(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  if (lost(wait)) return true;
  for (uint32_t i = 0; i < wait->mark_count; i++)
    if (!mark_passed(handle->node, wait, &wait->marks[i])) return false;
  return true;
}

/* When the last of the marks can be passed at the earliest. */
static uint64_t context_earliest(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  uint64_t latest = 0;
  for (uint32_t i = 0; i < wait->mark_count; i++) {
    uint64_t time;
    if (mark_passed(handle->node, wait, &wait->marks[i])) continue;
    time = sim_earliest(handle->node, wait->marks[i].stream, wait->marks[i].position);
    if (time > latest) latest = time;
  }
  return latest;
}

/* Marks those streams of the context that have work now, and counts them. The node is locked; `marks` has room for every stream. */
static uint32_t mark_streams(const struct CUctx_st *ctx, struct mark *marks) {
  const struct sim_node *node = driver.node.node;
  uint32_t count = 0;
  for (uint32_t i = node->ctxs[ctx->sim].first_stream; i != SIM_NONE; i = node->streams[i].next) {
    if (node->streams[i].head == node->streams[i].tail) continue;
    marks[count++] = (struct mark){i, node->streams[i].tail};
  }
  return count;
}

CUresult wait_stream(struct CUstream_st *stream, uint64_t position) {
  struct wait wait = {.card = stream->ctx->card, .stream = stream, .position = position};
  sim_wait_locked(&driver.node, stream_ready, stream_earliest, &wait);
  sim_unlock(&driver.node);
  pools_settle(true);
  return card_health(wait.card);
}

CUresult wait_context(struct CUctx_st *ctx) {
  struct mark *marks = malloc(SIM_MAX_STREAMS * sizeof *marks);
  struct wait wait = {.card = ctx->card, .ctx = ctx, .marks = marks};
  if (!marks) return CUDA_ERROR_OUT_OF_MEMORY;
  sim_lock(&driver.node);
  wait.mark_count = mark_streams(ctx, marks);
  sim_unlock(&driver.node);
  sim_wait_locked(&driver.node, context_ready, context_earliest, &wait);
  sim_unlock(&driver.node);
  free(marks);
  pools_settle(true);
  return card_health(wait.card);
}

static bool room_ready(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  return lost(wait) || sim_has_room(handle->node, wait->stream->sim);
}

static uint64_t room_earliest(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  return sim_earliest(handle->node, wait->stream->sim, handle->node->streams[wait->stream->sim].head + 1);
}

CUresult begin_enqueue(struct CUstream_st *stream) {
  struct wait wait = {.card = stream->ctx->card, .stream = stream};
  CUresult result;
  sim_wait_locked(&driver.node, room_ready, room_earliest, &wait);
  result = card_health(wait.card);
  if (result != CUDA_SUCCESS) sim_unlock(&driver.node);
  return result;
}

CUresult enqueue(struct CUstream_st *stream, enum sim_op_kind kind, uint64_t cost_ns, uint64_t *position) {
  CUresult result = begin_enqueue(stream);
  uint64_t at;
  if (result != CUDA_SUCCESS) return result;
  at = sim_push(driver.node.node, stream->sim, kind, cost_ns);
  sim_unlock(&driver.node);
  if (position) *position = at;
  return CUDA_SUCCESS;
}

CUresult enqueue_record(struct CUstream_st *stream, CUevent event, uint64_t *position) {
  CUresult result = begin_enqueue(stream);
  uint64_t at;
  if (result != CUDA_SUCCESS) return result;
  at = sim_push_record(driver.node.node, stream->sim, event->sim);
  sim_unlock(&driver.node);
  if (position) *position = at;
  return CUDA_SUCCESS;
}

CUresult enqueue_wait(struct CUstream_st *stream, CUevent event, uint64_t *position) {
  CUresult result = begin_enqueue(stream);
  uint64_t at;
  if (result != CUDA_SUCCESS) return result;
  at = sim_push_wait(driver.node.node, stream->sim, event->sim);
  sim_unlock(&driver.node);
  if (position) *position = at;
  return CUDA_SUCCESS;
}

/* Taken with driver.lock. */
struct CUstream_st *stream_make(struct CUctx_st *ctx, uint32_t sim_flags, unsigned flags, int priority) {
  struct CUstream_st *stream = handle_new(KIND_STREAM, sizeof *stream);
  if (!stream) return NULL;
  sim_lock(&driver.node);
  stream->sim = sim_stream_new(driver.node.node, ctx->sim, sim_flags, priority);
  sim_unlock(&driver.node);
  if (stream->sim == SIM_NONE) {
    handle_free(stream);
    return NULL;
  }
  stream->ctx = ctx;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = __atomic_add_fetch(&driver.next_id, 1, __ATOMIC_RELAXED);
  stream->next = ctx->streams;
  ctx->streams = stream;
  return stream;
}

void stream_drop(struct CUstream_st *stream) {
  struct CUstream_st **link = &stream->ctx->streams;
  while (*link && *link != stream) link = &(*link)->next;
  if (*link) *link = stream->next;
  if (stream->ctx->legacy == stream) stream->ctx->legacy = NULL;
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  sim_stream_free(driver.node.node, stream->sim);
  sim_unlock(&driver.node);
  handle_free(stream);
}

static struct CUstream_st *legacy_stream(struct CUctx_st *ctx) {
  pthread_mutex_lock(&driver.lock);
  if (!ctx->legacy) ctx->legacy = stream_make(ctx, SIM_STREAM_LEGACY, CU_STREAM_DEFAULT, 0);
  pthread_mutex_unlock(&driver.lock);
  return ctx->legacy;
}

static struct CUstream_st *thread_stream(struct CUctx_st *ctx) {
  uint64_t thread = (uint64_t)syscall(SYS_gettid);
  struct CUstream_st *stream;
  pthread_mutex_lock(&driver.lock);
  for (stream = ctx->streams; stream && stream->thread != thread; stream = stream->next) continue;
  if (!stream) stream = stream_make(ctx, 0, CU_STREAM_DEFAULT, 0);
  if (stream) stream->thread = thread;
  pthread_mutex_unlock(&driver.lock);
  return stream;
}

CUresult need_stream(CUstream handle, struct CUstream_st **stream) {
  struct CUctx_st *ctx;
  CUresult result;
  if (handle_is(handle, KIND_STREAM)) {
    *stream = handle;
    return card_health(handle->ctx->card);
  }
  if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  *stream = handle == CU_STREAM_PER_THREAD || (!handle && per_thread_default) ? thread_stream(ctx) : legacy_stream(ctx);
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  if (priority > 0) priority = 0;
  if (priority < -5) priority = -5;
  pthread_mutex_lock(&driver.lock);
  *out = stream_make(ctx, flags & CU_STREAM_NON_BLOCKING ? SIM_STREAM_NON_BLOCKING : 0, flags, priority);
  pthread_mutex_unlock(&driver.lock);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuStreamCreate(CUstream *out, unsigned flags) { return impl_cuStreamCreateWithPriority(out, flags, 0); }

static bool drained(struct sim_handle *handle, const void *what) {
  const struct wait *wait = what;
  const struct sim_stream *stream = &handle->node->streams[wait->stream->sim];
  return lost(wait) || stream->head == stream->tail;
}

/* The program may go on at once on hardware; what is queued still runs. Waiting keeps that true here. */
CUresult impl_cuStreamDestroy_v2(CUstream stream) {
  struct wait wait;
  if (!handle_is(stream, KIND_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
  capture_abandon(stream);
  wait = (struct wait){.card = stream->ctx->card, .stream = stream, .position = 0};
  sim_lock(&driver.node);
  wait.position = driver.node.node->streams[stream->sim].tail;
  sim_unlock(&driver.node);
  sim_wait_locked(&driver.node, drained, stream_earliest, &wait);
  sim_unlock(&driver.node);
  pthread_mutex_lock(&driver.lock);
  stream_drop(stream);
  pthread_mutex_unlock(&driver.lock);
  return CUDA_SUCCESS;
}

static uint64_t tail_of(const struct CUstream_st *stream) {
  uint64_t tail;
  sim_lock(&driver.node);
  tail = driver.node.node->streams[stream->sim].tail;
  sim_unlock(&driver.node);
  return tail;
}

CUresult impl_cuStreamSynchronize(CUstream handle) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) return capture_break(stream);
  return wait_stream(stream, tail_of(stream));
}

CUresult impl_cuStreamQuery(CUstream handle) {
  struct CUstream_st *stream;
  const struct sim_stream *queue;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) return capture_break(stream);
  sim_spend(&driver.node, driver.node.node->options.query_ns);
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  queue = &driver.node.node->streams[stream->sim];
  result = queue->head == queue->tail ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  sim_unlock(&driver.node);
  return result;
}
