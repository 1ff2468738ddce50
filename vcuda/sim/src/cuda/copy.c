/* cuMemcpy and its family in one dimension. */
#include "heap.h"
#include "impl.h"
#include "transfer.h"

/* Only page-locked memory goes over the link at full rate: the rest is staged. */
static uint64_t host_copy_ns(const struct sim_card_model *model, uint64_t bytes, bool locked) {
  uint64_t bps = locked ? sim_link_bps(model) : sim_link_bps(model) / 2;
  return COPY_LATENCY_NS + (uint64_t)((double)bytes * 1e9 / (double)bps);
}

uint64_t device_copy_ns(const struct sim_card_model *model, uint64_t bytes) {
  return COPY_LATENCY_NS + (uint64_t)((double)bytes * 2e9 / (double)model->bandwidth_bps); /* read and written */
}

uint64_t fill_ns(const struct sim_card_model *model, uint64_t bytes) {
  return COPY_LATENCY_NS + (uint64_t)((double)bytes * 1e9 / (double)model->bandwidth_bps);
}

static bool on_device(uint64_t address) {
  struct range range;
  return heap_find(address, &range) && !range.host;
}

static bool page_locked(uint64_t address) {
  struct range range;
  return heap_find(address, &range) && range.host;
}

void copy_classify(const struct sim_card *card, struct work *work) {
  const struct sim_card_model *model = &card->model;
  bool to = on_device(work->move.to), from = on_device(work->move.from);
  uint64_t bytes = move_bytes(&work->move);
  if (to == from) {
    work->engine = to ? SIM_OP_FILL : SIM_OP_H2D;
    work->cost_ns = to ? device_copy_ns(model, bytes) : host_copy_ns(model, bytes, true);
  } else {
    work->engine = to ? SIM_OP_H2D : SIM_OP_D2H;
    work->cost_ns = host_copy_ns(model, bytes, page_locked(to ? work->move.from : work->move.to));
  }
}

CUresult copy_box(CUstream handle, const struct move *move, bool wait) {
  struct CUstream_st *stream;
  struct work work = {.kind = WORK_MOVE, .move = *move};
  uint64_t position;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (move_bytes(move) == 0) return CUDA_SUCCESS;
  if (wait && stream->capture) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  copy_classify(card_of(stream->ctx), &work);
  result = work_submit(stream, &work, &position);
  if (result != CUDA_SUCCESS || !wait || work.engine == SIM_OP_FILL) return result; /* device to device: not waited for */
  return wait_stream(stream, position);
}

static CUresult copy(CUstream stream, uint64_t to, uint64_t from, uint64_t bytes, bool wait) {
  struct move move = {.kind = MOVE_COPY, .to = to, .from = from, .width = bytes, .height = 1, .depth = 1};
  if (bytes && (!to || !from)) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(stream, &move, wait);
}

/* The side that must be device memory, wholly inside what has been allocated. */
static CUresult device_copy(CUstream stream, uint64_t to, uint64_t from, uint64_t bytes, bool to_device, bool from_device, bool wait) {
  if (to_device && !heap_covers(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (from_device && !heap_covers(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, to, from, bytes, wait);
}

#define HOST(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult impl_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy(NULL, to, from, bytes, true); }
CUresult impl_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(stream, to, from, bytes, false);
}
CUresult impl_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return device_copy(NULL, to, HOST(from), bytes, true, false, true);
}
CUresult impl_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return device_copy(stream, to, HOST(from), bytes, true, false, false);
}
CUresult impl_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return device_copy(NULL, HOST(to), from, bytes, false, true, true);
}
CUresult impl_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return device_copy(stream, HOST(to), from, bytes, false, true, false);
}
CUresult impl_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return device_copy(NULL, to, from, bytes, true, true, true);
}
CUresult impl_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return device_copy(stream, to, from, bytes, true, true, false);
}

/* Between cards: the same address space here, so only the two contexts are checked. */
CUresult impl_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes, CUstream stream) {
  if (!handle_is(to_ctx, KIND_CONTEXT) || !handle_is(from_ctx, KIND_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
  return device_copy(stream, to, from, bytes, true, true, false);
}
CUresult impl_cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes) {
  return impl_cuMemcpyPeerAsync(to, to_ctx, from, from_ctx, bytes, NULL);
}

/* Hints about where memory lies change nothing here. */
CUresult impl_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at,
                                 size_t kinds, size_t *failed, CUstream stream) {
  if (!to || !from || !sizes || count == 0 || !traits || !at || kinds == 0 || kinds > count || !stream) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    CUresult result = copy(stream, to[i], from[i], sizes[i], false);
    if (result == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult impl_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *traits, size_t *at,
                                    size_t kinds, CUstream stream) {
  return impl_cuMemcpyBatchAsync(to, from, sizes, count, traits, at, kinds, NULL, stream);
}

CUresult impl_cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *traits, CUstream stream) {
  return traits ? copy(stream, to, from, bytes, false) : CUDA_ERROR_INVALID_VALUE;
}
