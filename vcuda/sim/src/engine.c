#include "engine.h"

#include <string.h>

#include "clock.h"
#include "queue.h"

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static bool on_compute(const struct sim_op *op) {
  return op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_FILL || (op->kind == SIM_OP_RECORD && op->needs_turn);
}

static void reach_record(struct sim_node *node, const struct sim_card *card, const struct sim_op *op) {
  struct sim_event *event = &node->events[op->event];
  if (op->record <= event->done) return;
  event->done = op->record;
  event->time_ns = card->front_ns;
}

/* The stream whose head the context's compute queue would take next: highest priority, then first come. */
static uint32_t next_compute(struct sim_node *node, uint32_t ctx) {
  uint32_t best = SIM_NONE;
  for (uint32_t i = node->ctxs[ctx].first_stream; i != SIM_NONE; i = node->streams[i].next) {
    struct sim_stream *stream = &node->streams[i];
    struct sim_op *op = sim_head(stream);
    if (!op || !on_compute(op) || !sim_head_ready(node, i)) continue;
    if (best == SIM_NONE || stream->priority < node->streams[best].priority ||
        (stream->priority == node->streams[best].priority && op->order < sim_head(&node->streams[best])->order)) {
      best = i;
    }
  }
  return best;
}

static uint32_t next_copy(struct sim_node *node, const struct sim_card *card, uint32_t kind) {
  uint32_t best = SIM_NONE;
  for (uint32_t a = 0; a < card->active_count; a++) {
    for (uint32_t i = node->ctxs[card->active[a]].first_stream; i != SIM_NONE; i = node->streams[i].next) {
      struct sim_op *op = sim_head(&node->streams[i]);
      if (!op || op->kind != kind || !sim_head_ready(node, i)) continue;
      if (best == SIM_NONE || op->order < sim_head(&node->streams[best])->order) best = i;
    }
  }
  return best;
}

static void start(struct sim_node *node, struct sim_card *card, struct sim_engine *engine, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  stream->running = 1;
  engine->stream = index;
  engine->end_ns = card->front_ns + (sim_head(stream)->cost_ns - stream->progress_ns);
}

/* Completes everything of one context that takes no time, unless it needs a turn that the context has not. */
static bool complete_free(struct sim_node *node, const struct sim_card *card, uint32_t ctx) {
  bool has_turn = card->current == ctx && !card->switching;
  bool any = false;
  for (uint32_t i = node->ctxs[ctx].first_stream; i != SIM_NONE; i = node->streams[i].next) {
    struct sim_op *op;
    while ((op = sim_head(&node->streams[i])) && sim_head_ready(node, i)) {
      if (op->kind == SIM_OP_RECORD && (has_turn || !op->needs_turn)) {
        reach_record(node, card, op);
      } else if (op->kind != SIM_OP_WAIT) {
        break;
      }
      sim_pop(node, i);
      any = true;
    }
  }
  return any;
}

static bool start_copies(struct sim_node *node, struct sim_card *card) {
  bool any = false;
  for (uint32_t e = 0; e < 2; e++) {
    uint32_t stream;
    if (card->copy[e].stream != SIM_NONE) continue;
    stream = next_copy(node, card, e == 0 ? SIM_OP_H2D : SIM_OP_D2H);
    if (stream == SIM_NONE) continue;
    start(node, card, &card->copy[e], stream);
    any = true;
  }
  return any;
}

/* The next context after the present one, in turn, that has something for the compute engine. */
static uint32_t next_context(struct sim_node *node, const struct sim_card *card) {
  uint32_t from = 0;
  for (uint32_t i = 0; i < card->active_count; i++) {
    if (card->active[i] == card->current) from = i + 1;
  }
  for (uint32_t i = 0; i < card->active_count; i++) {
    uint32_t ctx = card->active[(from + i) % card->active_count];
    if (ctx != card->current && next_compute(node, ctx) != SIM_NONE) return ctx;
  }
  return SIM_NONE;
}

static void begin_switch(struct sim_node *node, struct sim_card *card, uint32_t to) {
  bool first = card->current == SIM_NONE;
  card->current = to;
  card->switching = 1;
  card->switch_end_ns = card->front_ns + (first ? 0 : node->options.switch_ns);
  card->switch_ns += first ? 0 : node->options.switch_ns;
  card->switches += first ? 0 : 1;
}

static void preempt(struct sim_node *node, struct sim_card *card) {
  if (card->compute.stream == SIM_NONE) return;
  node->streams[card->compute.stream].running = 0; /* progress_ns is kept */
  card->compute.stream = SIM_NONE;
}

static bool end_slice(struct sim_node *node, struct sim_card *card) {
  uint32_t other;
  if (card->front_ns < card->slice_end_ns) return false;
  other = next_context(node, card);
  if (other == SIM_NONE) return false;
  preempt(node, card);
  begin_switch(node, card, other);
  return true;
}

static bool run_compute(struct sim_node *node, struct sim_card *card) {
  uint32_t index, other;
  if (card->switching) {
    if (card->front_ns < card->switch_end_ns) return false;
    card->switching = 0;
    card->slice_end_ns = card->front_ns + node->options.slice_ns;
  }
  if (card->current != SIM_NONE && end_slice(node, card)) return true;
  if (card->compute.stream != SIM_NONE) return false;
  index = card->current == SIM_NONE ? SIM_NONE : next_compute(node, card->current);
  if (index != SIM_NONE && sim_head(&node->streams[index])->kind == SIM_OP_RECORD) {
    reach_record(node, card, sim_head(&node->streams[index]));
    sim_pop(node, index);
    return true;
  }
  if (index != SIM_NONE) {
    start(node, card, &card->compute, index);
    return true;
  }
  other = next_context(node, card);
  if (other == SIM_NONE) return false;
  begin_switch(node, card, other);
  return true;
}

/* Everything that happens at the present moment of the card. */
static void settle(struct sim_node *node, struct sim_card *card) {
  bool any = true;
  while (any) {
    any = false;
    /* complete_free may empty a context and shift the list: look at the same place again */
    for (uint32_t a = 0; a < card->active_count;) {
      uint32_t ctx = card->active[a];
      any |= complete_free(node, card, ctx);
      if (a < card->active_count && card->active[a] == ctx) a++;
    }
    any |= start_copies(node, card);
    any |= run_compute(node, card);
  }
}

static uint64_t next_event(const struct sim_card *card) {
  uint64_t next = SIM_NEVER;
  if (card->compute.stream != SIM_NONE) {
    next = card->compute.end_ns;
    if (card->active_count > 1 && card->slice_end_ns > card->front_ns) next = min_u64(next, card->slice_end_ns);
  }
  if (card->switching) next = min_u64(next, card->switch_end_ns);
  for (int i = 0; i < 2; i++) {
    if (card->copy[i].stream != SIM_NONE) next = min_u64(next, card->copy[i].end_ns);
  }
  return next;
}

static struct sim_window *window_at(struct sim_card *card, uint64_t id) {
  struct sim_window *window = &card->windows[id % SIM_WINDOWS];
  if (window->id != id) {
    memset(window, 0, sizeof *window);
    window->id = id;
  }
  return window;
}

static void add_busy(struct sim_card *card, uint32_t proc, uint64_t from, uint64_t to, bool copy) {
  uint64_t oldest = to / SIM_WINDOW_NS >= SIM_WINDOWS ? (to / SIM_WINDOW_NS - SIM_WINDOWS + 1) * SIM_WINDOW_NS : 0;
  if (!copy) {
    card->busy_ns += to - from;
    card->proc_busy_ns[proc] += to - from;
  }
  from = max_u64(from, oldest);
  while (from < to) {
    uint64_t id = from / SIM_WINDOW_NS;
    uint64_t end = min_u64(to, (id + 1) * SIM_WINDOW_NS);
    struct sim_window *window = window_at(card, id);
    if (copy) {
      window->copy_ns += end - from;
    } else {
      window->busy_ns += end - from;
      window->proc_ns[proc] += (uint32_t)(end - from);
    }
    from = end;
  }
}

static void account(struct sim_node *node, struct sim_card *card, struct sim_engine *engine, uint64_t to, bool copy) {
  struct sim_stream *stream;
  if (engine->stream == SIM_NONE || to == card->front_ns) return;
  stream = &node->streams[engine->stream];
  stream->progress_ns += to - card->front_ns;
  add_busy(card, node->ctxs[stream->ctx].proc, card->front_ns, to, copy);
}

static void finish(struct sim_node *node, struct sim_card *card, struct sim_engine *engine) {
  uint32_t stream = engine->stream;
  if (stream == SIM_NONE || engine->end_ns > card->front_ns) return;
  engine->stream = SIM_NONE;
  sim_pop(node, stream);
}

static void advance(struct sim_node *node, struct sim_card *card, uint64_t to) {
  if (card->health == SIM_LOST) {
    card->front_ns = max_u64(card->front_ns, to);
    return;
  }
  settle(node, card);
  while (card->front_ns < to) {
    uint64_t next = min_u64(next_event(card), to);
    account(node, card, &card->compute, next, false);
    account(node, card, &card->copy[0], next, true);
    account(node, card, &card->copy[1], next, true);
    card->front_ns = next;
    finish(node, card, &card->compute);
    finish(node, card, &card->copy[0]);
    finish(node, card, &card->copy[1]);
    settle(node, card);
  }
}

/* A wait for another card's event is noticed when its own card is advanced: hence the second round. */
void sim_advance_all(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  uint64_t now = sim_now(handle);
  for (uint32_t i = 0; i < node->card_count; i++) advance(node, &node->cards[i], now);
  for (uint32_t i = 0; node->card_count > 1 && i < node->card_count; i++) settle(node, &node->cards[i]);
}

static uint64_t remaining(const struct sim_stream *stream, uint64_t position) {
  if (stream->head >= position) return 0;
  return stream->ring[(position - 1) % SIM_RING].cum_ns - stream->cum_done_ns - stream->progress_ns;
}

/* Whole remaining work of a stream if all of it was put in before `order` (so that a default stream waits for it). */
static uint64_t remaining_before(struct sim_node *node, uint32_t index, uint64_t order) {
  struct sim_stream *stream = &node->streams[index];
  if (stream->head == stream->tail || stream->ring[(stream->tail - 1) % SIM_RING].order > order) return 0;
  return remaining(stream, stream->tail);
}

static uint64_t default_stream_delay(struct sim_node *node, uint32_t index) {
  struct sim_stream *stream = &node->streams[index];
  struct sim_ctx *ctx = &node->ctxs[stream->ctx];
  uint64_t order = sim_head(stream)->order;
  uint64_t delay = 0;

  if (stream->flags & SIM_STREAM_NON_BLOCKING) return 0;
  if (!(stream->flags & SIM_STREAM_LEGACY)) {
    return ctx->legacy == SIM_NONE ? 0 : remaining_before(node, ctx->legacy, order);
  }
  for (uint32_t i = ctx->first_stream; i != SIM_NONE; i = node->streams[i].next) {
    if (i == index || (node->streams[i].flags & SIM_STREAM_NON_BLOCKING)) continue;
    delay = max_u64(delay, remaining_before(node, i, order));
  }
  return delay;
}

/* How long the context must wait for the card at the least. */
static uint64_t turn_delay(struct sim_node *node, const struct sim_card *card, uint32_t ctx) {
  uint64_t delay = 0;
  if (card->current == ctx) return card->switching ? card->switch_end_ns - card->front_ns : 0;
  if (card->current == SIM_NONE || card->switching || card->compute.stream == SIM_NONE) return 0;
  for (uint32_t i = node->ctxs[card->current].first_stream; i != SIM_NONE; i = node->streams[i].next) {
    delay += remaining(&node->streams[i], node->streams[i].tail);
  }
  if (card->slice_end_ns > card->front_ns) delay = min_u64(delay, card->slice_end_ns - card->front_ns);
  return delay + node->options.switch_ns;
}

static uint64_t earliest(struct sim_node *node, uint32_t index, uint64_t position, int depth) {
  struct sim_stream *stream = &node->streams[index];
  const struct sim_card *card;
  struct sim_op *op;
  uint64_t begin;

  if (stream->ctx == SIM_NONE) return 0; /* freed meanwhile: look at once */
  card = &node->cards[node->ctxs[stream->ctx].card];
  op = sim_head(stream);
  begin = card->front_ns;
  if (!op || stream->head >= position) return begin;
  if (op->kind == SIM_OP_WAIT && node->events[op->event].done < op->record) {
    struct sim_event *event = &node->events[op->event];
    bool known = event->recorded == op->record && event->stream != SIM_NONE;
    if (known && depth > 0) return earliest(node, event->stream, event->position, depth - 1) + remaining(stream, position);
  }
  if (!stream->running && on_compute(op)) begin += turn_delay(node, card, stream->ctx);
  begin += default_stream_delay(node, index);
  return max_u64(begin + remaining(stream, position), next_event(card));
}

uint64_t sim_earliest(struct sim_node *node, uint32_t stream, uint64_t position) {
  return earliest(node, stream, position, 4);
}

uint32_t sim_utilisation(const struct sim_card *card, uint64_t now_ns, uint32_t proc) {
  uint64_t id = now_ns / SIM_WINDOW_NS;
  const struct sim_window *window;
  uint64_t busy;
  if (id == 0) return 0;
  window = &card->windows[(id - 1) % SIM_WINDOWS];
  if (window->id != id - 1) return 0;
  busy = proc == SIM_NONE ? window->busy_ns : window->proc_ns[proc];
  return (uint32_t)((busy * 100 + SIM_WINDOW_NS / 2) / SIM_WINDOW_NS);
}

void sim_forget_busy(struct sim_card *card, uint32_t proc) {
  card->proc_busy_ns[proc] = 0;
  for (int i = 0; i < SIM_WINDOWS; i++) card->windows[i].proc_ns[proc] = 0;
}
