#include "capture.h"

#include "impl.h"

struct capture {
  struct head head;
  uint64_t id;
  CUgraph graph;
  struct CUstream_st *origin;
  CUstreamCaptureMode mode;
  bool broken, own_graph;
};

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct capture *capture_of(const struct CUevent_st *event) {
  struct capture *capture = event->capture;
  return capture && handle_is(capture, KIND_CAPTURE) && capture->id == event->capture_id ? capture : NULL;
}

CUgraph capture_graph(const struct CUstream_st *stream) { return stream->capture->graph; }

CUresult capture_break(struct CUstream_st *stream) {
  stream->capture->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_work(struct CUstream_st *stream, const struct work *work) {
  struct capture *capture = stream->capture;
  CUgraphNode node;
  CUresult result;
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  result = graph_add(capture->graph, stream->last.nodes, stream->last.count, work, &node);
  if (result != CUDA_SUCCESS) return result;
  node_set_clear(&stream->last);
  return node_set_add(&stream->last, node);
}

CUresult capture_record(struct CUstream_st *stream, CUevent event) {
  if (stream->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  event->capture_id = stream->capture->id;
  return node_set_copy(&event->after, &stream->last);
}

CUresult capture_wait(struct CUstream_st *stream, CUevent event) {
  struct capture *capture = capture_of(event);
  CUresult result = CUDA_SUCCESS;
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture && stream->capture != capture) {
    capture->broken = stream->capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->ctx->legacy == stream) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  stream->capture = capture;
  for (size_t i = 0; i < event->after.count && result == CUDA_SUCCESS; i++) result = node_set_add(&stream->last, event->after.nodes[i]);
  return result;
}

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *before, size_t count, CUstreamCaptureMode mode) {
  struct CUstream_st *stream;
  struct capture *capture;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream->ctx->legacy == stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  capture = handle_new(KIND_CAPTURE, sizeof *capture);
  if (!capture) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->own_graph = graph == NULL;
  capture->graph = graph ? graph : graph_new();
  if (!capture->graph) {
    handle_free(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  capture->id = __atomic_add_fetch(&driver.next_id, 1, __ATOMIC_RELAXED);
  capture->mode = mode;
  capture->origin = stream;
  stream->capture = capture;
  node_set_clear(&stream->last);
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) result = node_set_add(&stream->last, before[i]);
  return result;
}

CUresult impl_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, NULL, NULL, 0, mode); }

CUresult impl_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
                                          size_t count, CUstreamCaptureMode mode) {
  if (!handle_is(graph, KIND_GRAPH) || edges || (count && !before)) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, graph, before, count, mode);
}

static bool leads_to(const struct node_set *from, const struct CUgraphNode_st *wanted) {
  for (size_t i = 0; i < from->count; i++) {
    if (from->nodes[i] == wanted || leads_to(&from->nodes[i]->before, wanted)) return true;
  }
  return false;
}

/* Every stream that has joined must have been waited for by the one that began. */
static bool joined(const struct capture *capture) {
  for (struct CUstream_st *stream = capture->origin->ctx->streams; stream; stream = stream->next) {
    if (stream->capture != capture || stream == capture->origin) continue;
    for (size_t i = 0; i < stream->last.count; i++) {
      if (!leads_to(&capture->origin->last, stream->last.nodes[i])) return false;
    }
  }
  return true;
}

static void leave(struct capture *capture) {
  for (struct CUstream_st *stream = capture->origin->ctx->streams; stream; stream = stream->next) {
    if (stream->capture != capture) continue;
    stream->capture = NULL;
    node_set_clear(&stream->last);
  }
}

static void end(struct capture *capture, bool keep_graph) {
  pthread_mutex_lock(&driver.lock);
  leave(capture);
  pthread_mutex_unlock(&driver.lock);
  if (!keep_graph && capture->own_graph) graph_drop(capture->graph);
  handle_free(capture);
}

CUresult impl_cuStreamEndCapture(CUstream handle, CUgraph *out) {
  struct CUstream_st *stream;
  struct capture *capture;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  capture = stream->capture;
  *out = NULL;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->broken) result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!joined(capture)) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  else *out = capture->graph;
  end(capture, result == CUDA_SUCCESS);
  return result;
}

void capture_abandon(struct CUstream_st *stream) {
  if (!stream->capture) return;
  if (stream->capture->origin == stream) {
    end(stream->capture, false);
    return;
  }
  stream->capture = NULL;
  node_set_clear(&stream->last);
}

CUresult impl_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **nodes, size_t *count) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result == CUDA_SUCCESS) result = impl_cuStreamIsCapturing(handle, status);
  if (result != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return result;
  if (id) *id = stream->capture->id;
  if (graph) *graph = stream->capture->graph;
  if (nodes) *nodes = stream->last.nodes;
  if (count) *count = stream->last.count;
  return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count) {
  if (edges) *edges = NULL;
  return impl_cuStreamGetCaptureInfo_v2(handle, status, id, graph, nodes, count);
}

CUresult impl_cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *nodes, size_t count, unsigned flags) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) node_set_clear(&stream->last);
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) result = node_set_add(&stream->last, nodes[i]);
  return result;
}

CUresult impl_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  CUstreamCaptureMode old = thread_mode;
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  thread_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}
