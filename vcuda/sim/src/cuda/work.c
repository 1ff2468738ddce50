#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture.h"
#include "heap.h"

#define PIECE (64ull * 1024)

static bool all_zero(const unsigned char *bytes, uint64_t count) {
  return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Copies of large untouched memory must not commit RAM: pieces of zeros become untouched pages at the destination. Reading
 * an untouched page costs none. */
static void copy_row(uint64_t to, uint64_t from, uint64_t bytes) {
  struct range range;
  bool device = bytes >= 16 * PIECE && heap_find(to, &range) && !range.host;
  while (device && bytes >= PIECE) {
    if (all_zero((const void *)(uintptr_t)from, PIECE)) heap_zero(to, PIECE);
    else memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, PIECE);
    to += PIECE;
    from += PIECE;
    bytes -= PIECE;
  }
  memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

static void fill_row(uint64_t to, const struct move *move) {
  unsigned char *out = (void *)(uintptr_t)to;
  if (move->value == 0) heap_zero(to, move->width);
  else if (move->element == 1) memset(out, (int)move->value, move->width);
  else for (uint64_t i = 0; i < move->width; i += move->element) memcpy(out + i, &move->value, move->element);
}

void move_run(const struct move *move) {
  for (uint64_t slice = 0; slice < move->depth; slice++) {
    for (uint64_t row = 0; row < move->height; row++) {
      uint64_t to = move->to + slice * move->to_slice + row * move->to_pitch;
      uint64_t from = move->from + slice * move->from_slice + row * move->from_pitch;
      if (move->kind == MOVE_FILL) fill_row(to, move);
      else if (to != from) copy_row(to, from, move->width);
    }
  }
}

uint64_t move_bytes(const struct move *move) { return move->width * move->height * move->depth; }

static void run_later(void *data) {
  move_run(data);
  free(data);
}

static CUresult enqueue_move(struct CUstream_st *stream, const struct work *work, uint64_t *position) {
  struct move *copy;
  CUresult result;
  if (!host_pending()) {
    move_run(&work->move);
    return enqueue(stream, work->engine, work->cost_ns, position);
  }
  copy = malloc(sizeof *copy);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  *copy = work->move;
  result = enqueue(stream, work->engine, work->cost_ns, NULL);
  if (result == CUDA_SUCCESS) result = host_enqueue(stream, run_later, copy, position);
  if (result != CUDA_SUCCESS) free(copy);
  return result;
}

CUresult work_enqueue(struct CUstream_st *stream, const struct work *work, uint64_t *position) {
  switch (work->kind) {
    case WORK_KERNEL: return enqueue(stream, work->engine, work->cost_ns, position);
    case WORK_MOVE: return enqueue_move(stream, work, position);
    case WORK_HOST: return host_enqueue(stream, work->function, work->data, position);
    case WORK_RECORD: return enqueue_record(stream, work->event, position);
    case WORK_WAIT: return enqueue_wait(stream, work->event, position);
    default: return CUDA_SUCCESS; /* EMPTY; a child graph is walked by the graph that holds it */
  }
}

CUresult work_submit(struct CUstream_st *stream, const struct work *work, uint64_t *position) {
  if (position) *position = 0;
  if (stream->capture) return capture_work(stream, work);
  sim_spend(&driver.node, driver.node.node->options.launch_ns);
  return work_enqueue(stream, work, position);
}
