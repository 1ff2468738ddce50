#include "capture.h"
#include "impl.h"
#include "work.h"

CUresult impl_cuEventCreate(CUevent *out, unsigned flags) {
  const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  struct CUctx_st *ctx;
  struct CUevent_st *event;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
  event = handle_new(KIND_EVENT, sizeof *event);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  sim_lock(&driver.node);
  event->sim = sim_event_new(driver.node.node, driver.node.proc, ctx->card);
  if (event->sim != SIM_NONE) event->serial = driver.node.node->events[event->sim].serial;
  sim_unlock(&driver.node);
  if (event->sim == SIM_NONE) {
    handle_free(event);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event->ctx = ctx;
  event->flags = flags;
  *out = event;
  return CUDA_SUCCESS;
}

bool event_is(const struct CUevent_st *event) {
  const struct sim_event *state;
  if (!handle_is(event, KIND_EVENT)) return false;
  state = &driver.node.node->events[event->sim];
  return !event->opened || (state->serial == event->serial && state->proc != SIM_NONE && !state->destroyed);
}

CUresult impl_cuEventDestroy_v2(CUevent event) {
  if (!handle_is(event, KIND_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  sim_lock(&driver.node);
  if (!event->opened) sim_event_destroy(driver.node.node, event->sim);
  sim_unlock(&driver.node);
  node_set_clear(&event->after);
  handle_free(event);
  return CUDA_SUCCESS;
}

CUresult impl_cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  struct CUstream_st *stream;
  struct work record = {.kind = WORK_RECORD, .event = event};
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!event_is(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (event->ctx != stream->ctx) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL)) return capture_record(stream, event);
  event->capture = NULL;
  return work_submit(stream, &record, NULL);
}

CUresult impl_cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  struct CUstream_st *stream;
  struct work wait = {.kind = WORK_WAIT, .event = event};
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!event_is(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (capture_of(event) && !(flags & CU_EVENT_WAIT_EXTERNAL)) return capture_wait(stream, event);
  if (stream->capture && !(flags & CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  return work_submit(stream, &wait, NULL);
}

CUresult impl_cuEventRecord(CUevent event, CUstream stream) { return impl_cuEventRecordWithFlags(event, stream, 0); }

static bool reached(struct sim_handle *handle, const void *what) {
  const struct CUevent_st *event = what;
  const struct sim_event *state = &handle->node->events[event->sim];
  return state->done >= state->recorded || handle->node->cards[state->card].health == SIM_LOST;
}

static uint64_t reached_earliest(struct sim_handle *handle, const void *what) {
  const struct CUevent_st *event = what;
  const struct sim_event *state = &handle->node->events[event->sim];
  return sim_earliest(handle->node, state->stream, state->position);
}

CUresult impl_cuEventQuery(CUevent event) {
  CUresult result;
  if (!event_is(event)) return CUDA_ERROR_INVALID_HANDLE;
  sim_spend(&driver.node, driver.node.node->options.query_ns);
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  result = reached(&driver.node, event) ? card_health(event->ctx->card) : CUDA_ERROR_NOT_READY;
  sim_unlock(&driver.node);
  return result;
}

CUresult impl_cuEventSynchronize(CUevent event) {
  if (!event_is(event)) return CUDA_ERROR_INVALID_HANDLE;
  sim_wait_locked(&driver.node, reached, reached_earliest, event);
  sim_unlock(&driver.node);
  return card_health(event->ctx->card);
}

CUresult impl_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) {
  const struct sim_event *a, *b;
  CUresult result = CUDA_SUCCESS;
  if (!event_is(start) || !event_is(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  a = &driver.node.node->events[start->sim];
  b = &driver.node.node->events[end->sim];
  if (a->recorded == 0 || b->recorded == 0) result = CUDA_ERROR_INVALID_HANDLE;
  else if (!reached(&driver.node, start) || !reached(&driver.node, end)) result = CUDA_ERROR_NOT_READY;
  else *ms = (float)(((double)b->time_ns - (double)a->time_ns) / 1e6);
  sim_unlock(&driver.node);
  return result;
}

CUresult impl_cuEventElapsedTime(float *ms, CUevent start, CUevent end) { return impl_cuEventElapsedTime_v2(ms, start, end); }
