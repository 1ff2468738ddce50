#include "queue.h"

#include <stddef.h>
#include <string.h>

#include "util.h"

static struct sim_card *card_of(struct sim_node *node, const struct sim_ctx *ctx) { return &node->cards[ctx->card]; }

static void activate(struct sim_node *node, uint32_t ctx) {
  struct sim_card *card = card_of(node, &node->ctxs[ctx]);
  card->active[card->active_count++] = ctx;
}

static void deactivate(struct sim_node *node, uint32_t ctx) {
  struct sim_card *card = card_of(node, &node->ctxs[ctx]);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < card->active_count; i++) {
    if (card->active[i] != ctx) card->active[kept++] = card->active[i];
  }
  card->active_count = kept;
}

uint32_t sim_ctx_new(struct sim_node *node, uint32_t proc, uint32_t card) {
  for (uint32_t i = 0; i < SIM_MAX_CTX; i++) {
    if (i < node->ctx_high && node->ctxs[i].proc != SIM_NONE) continue;
    if (i >= node->ctx_high) node->ctx_high = i + 1;
    node->ctxs[i] = (struct sim_ctx){.proc = proc, .card = card, .first_stream = SIM_NONE, .legacy = SIM_NONE};
    return i;
  }
  return SIM_NONE;
}

uint32_t sim_stream_new(struct sim_node *node, uint32_t ctx, uint32_t flags, int32_t priority) {
  for (uint32_t i = 0; i < SIM_MAX_STREAMS; i++) {
    struct sim_stream *stream = &node->streams[i];
    if (i < node->stream_high && stream->ctx != SIM_NONE) continue;
    if (i >= node->stream_high) node->stream_high = i + 1;
    memset(stream, 0, offsetof(struct sim_stream, ring));
    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    stream->next = node->ctxs[ctx].first_stream;
    node->ctxs[ctx].first_stream = i;
    if (flags & SIM_STREAM_LEGACY) node->ctxs[ctx].legacy = i;
    return i;
  }
  return SIM_NONE;
}

static void unref_event(struct sim_node *node, uint32_t index) {
  struct sim_event *event = &node->events[index];
  if (event->refs > 0) event->refs--;
  if (event->refs > 0 || !event->destroyed) return;
  event->proc = SIM_NONE;
  event->next_free = node->event_free;
  node->event_free = index;
}

uint32_t sim_event_new(struct sim_node *node, uint32_t proc, uint32_t card) {
  uint32_t index = node->event_free;
  if (index != SIM_NONE) {
    node->event_free = node->events[index].next_free;
  } else if (node->event_high < SIM_MAX_EVENTS) {
    index = node->event_high++;
  } else {
    return SIM_NONE;
  }
  node->events[index] = (struct sim_event){.proc = proc, .card = card, .next_free = SIM_NONE, .stream = SIM_NONE,
                                            .serial = ++node->event_serial};
  return index;
}

void sim_event_destroy(struct sim_node *node, uint32_t index) {
  struct sim_event *event = &node->events[index];
  if (event->proc == SIM_NONE || event->destroyed) return;
  event->destroyed = 1;
  event->refs++;
  unref_event(node, index);
}

static void release_engines(struct sim_card *card, uint32_t stream) {
  if (card->compute.stream == stream) card->compute.stream = SIM_NONE;
  for (int i = 0; i < 2; i++) {
    if (card->copy[i].stream == stream) card->copy[i].stream = SIM_NONE;
  }
}

static void unlink_stream(struct sim_node *node, uint32_t index) {
  struct sim_ctx *ctx = &node->ctxs[node->streams[index].ctx];
  uint32_t *link = &ctx->first_stream;
  while (*link != SIM_NONE && *link != index) link = &node->streams[*link].next;
  if (*link == index) *link = node->streams[index].next;
  if (ctx->legacy == index) ctx->legacy = SIM_NONE;
}

void sim_stream_free(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  release_engines(card_of(node, &node->ctxs[stream->ctx]), index);
  while (stream->head != stream->tail) {
    struct sim_op *op = sim_head(stream);
    if (op->kind == SIM_OP_RECORD) node->events[op->event].done = op->record; /* nobody may wait for it for ever */
    sim_pop(node, index);
  }
  unlink_stream(node, index);
  stream->ctx = SIM_NONE;
}

void sim_ctx_free(struct sim_node *node, uint32_t index) {
  struct sim_ctx *ctx = &node->ctxs[index];
  struct sim_card *card = card_of(node, ctx);
  if (ctx->proc == SIM_NONE) return;
  while (ctx->first_stream != SIM_NONE) sim_stream_free(node, ctx->first_stream);
  if (card->current == index) {
    card->current = SIM_NONE;
    card->switching = 0;
  }
  ctx->proc = SIM_NONE;
}

bool sim_has_room(const struct sim_node *node, uint32_t stream) {
  return node->streams[stream].tail - node->streams[stream].head < SIM_RING;
}

static uint64_t jittered(struct sim_node *node, struct sim_card *card, uint64_t cost_ns) {
  uint64_t span = cost_ns / 1000 * node->options.jitter_permille;
  return span ? cost_ns - span + sim_random(&card->rng) % (2 * span + 1) : cost_ns;
}

static struct sim_op *append(struct sim_node *node, uint32_t index, enum sim_op_kind kind, uint64_t cost_ns) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_op *op = &stream->ring[stream->tail % SIM_RING];
  stream->cum_in_ns += cost_ns;
  *op = (struct sim_op){.kind = (uint32_t)kind,
                        .event = SIM_NONE,
                        .order = ++node->order,
                        .cost_ns = cost_ns,
                        .cum_ns = stream->cum_in_ns};
  return op;
}

/* The operation counts from here on: everything about it has been written before. */
static uint64_t publish(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  stream->tail++;
  if (node->ctxs[stream->ctx].pending++ == 0) activate(node, stream->ctx);
  return stream->tail;
}

uint64_t sim_push(struct sim_node *node, uint32_t index, enum sim_op_kind kind, uint64_t cost_ns) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_card *card = card_of(node, &node->ctxs[stream->ctx]);
  if (kind == SIM_OP_KERNEL) cost_ns = jittered(node, card, cost_ns);
  if (kind != SIM_OP_HOST && cost_ns == 0) cost_ns = 1; /* an engine always finishes later than it starts */
  append(node, index, kind, cost_ns);
  if (kind != SIM_OP_HOST) stream->after_copy = kind == SIM_OP_H2D || kind == SIM_OP_D2H;
  return publish(node, index);
}

uint64_t sim_push_record(struct sim_node *node, uint32_t index, uint32_t event_index) {
  struct sim_event *event = &node->events[event_index];
  struct sim_stream *stream = &node->streams[index];
  struct sim_op *op = append(node, index, SIM_OP_RECORD, 0);
  op->event = event_index;
  op->record = ++event->recorded;
  op->needs_turn = !stream->after_copy;
  event->refs++;
  event->stream = index;
  event->position = stream->tail + 1;
  return publish(node, index);
}

uint64_t sim_push_wait(struct sim_node *node, uint32_t index, uint32_t event_index) {
  struct sim_event *event = &node->events[event_index];
  struct sim_op *op = append(node, index, SIM_OP_WAIT, 0);
  op->event = event_index;
  op->record = event->recorded;
  event->refs++;
  return publish(node, index);
}

void sim_pop(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_op *op = sim_head(stream);
  uint32_t event = op->event;
  stream->cum_done_ns = op->cum_ns;
  stream->progress_ns = 0;
  stream->running = 0;
  stream->head++;
  if (event != SIM_NONE) unref_event(node, event);
  if (--node->ctxs[stream->ctx].pending == 0) deactivate(node, stream->ctx);
}

/* The default stream of a context waits for everything put before into the blocking streams, and they for it. */
static bool held_by_default_stream(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_ctx *ctx = &node->ctxs[stream->ctx];
  uint64_t order = sim_head(stream)->order;
  struct sim_op *other;

  if (stream->flags & SIM_STREAM_NON_BLOCKING) return false;
  if (!(stream->flags & SIM_STREAM_LEGACY)) {
    other = ctx->legacy == SIM_NONE ? NULL : sim_head(&node->streams[ctx->legacy]);
    return other && other->order < order;
  }
  for (uint32_t i = ctx->first_stream; i != SIM_NONE; i = node->streams[i].next) {
    if (i == index || (node->streams[i].flags & SIM_STREAM_NON_BLOCKING)) continue;
    other = sim_head(&node->streams[i]);
    if (other && other->order < order) return true;
  }
  return false;
}

bool sim_head_ready(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_op *op = sim_head(stream);
  if (!op || stream->running || held_by_default_stream(node, index)) return false;
  if (op->kind == SIM_OP_WAIT) return node->events[op->event].done >= op->record;
  return true;
}

void sim_queue_repair(struct sim_node *node) {
  for (uint32_t i = 0; i < node->card_count; i++) node->cards[i].active_count = 0;
  for (uint32_t i = 0; i < node->ctx_high; i++) node->ctxs[i].pending = 0;
  for (uint32_t i = 0; i < node->stream_high; i++) {
    struct sim_stream *stream = &node->streams[i];
    if (stream->ctx != SIM_NONE) node->ctxs[stream->ctx].pending += (uint32_t)(stream->tail - stream->head);
  }
  for (uint32_t i = 0; i < node->ctx_high; i++) {
    if (node->ctxs[i].proc != SIM_NONE && node->ctxs[i].pending) activate(node, i);
  }
}
