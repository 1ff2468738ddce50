/* Making nodes, asking them and changing them, in graphs and in graphs that run. */
#include "graph_memory.h"
#include "impl.h"
#include "transfer.h"

static CUresult describe_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct work *work) {
  struct CUctx_st *ctx;
  struct launch launch;
  CUresult result;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  launch = (struct launch){.function = p->func ? p->func : (CUfunction)p->kern,
                           .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                           .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                           .shared = p->sharedMemBytes,
                           .params = p->kernelParams,
                           .extra = p->extra};
  if (!handle_is(launch.function, KIND_FUNCTION)) return CUDA_ERROR_INVALID_VALUE;
  ctx = function_context(launch.function);
  if (!ctx) ctx = p->ctx;
  result = ctx ? CUDA_SUCCESS : need_context(&ctx);
  return result == CUDA_SUCCESS ? launch_describe(&launch, ctx, work) : result;
}

static CUresult describe_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx, struct work *work) {
  if (!p || !handle_is(ctx, KIND_CONTEXT)) return CUDA_ERROR_INVALID_VALUE;
  if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 || p->height == 0) return CUDA_ERROR_INVALID_VALUE;
  *work = (struct work){.kind = WORK_MOVE, .engine = SIM_OP_FILL};
  work->move = (struct move){.kind = MOVE_FILL, .to = p->dst, .to_pitch = p->pitch, .width = p->width * p->elementSize,
                             .height = p->height, .depth = 1, .value = p->value, .element = p->elementSize};
  if (!fill_is_valid(&work->move)) return CUDA_ERROR_INVALID_VALUE;
  work->cost_ns = fill_ns(&card_of(ctx)->model, move_bytes(&work->move));
  return CUDA_SUCCESS;
}

static CUresult describe_copy(const CUDA_MEMCPY3D *p, CUcontext ctx, struct work *work) {
  CUresult result;
  if (!handle_is(ctx, KIND_CONTEXT)) return CUDA_ERROR_INVALID_VALUE;
  *work = (struct work){.kind = WORK_MOVE};
  result = box_of(p, &work->move);
  if (result == CUDA_SUCCESS) copy_classify(card_of(ctx), work);
  return result;
}

CUresult impl_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
  struct work work;
  CUresult result = describe_kernel(params, &work);
  if (result != CUDA_SUCCESS) return result;
  return handle_is(graph, KIND_GRAPH) && out ? graph_add(graph, before, count, &work, out) : CUDA_ERROR_INVALID_VALUE;
}

static CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  return (CUDA_KERNEL_NODE_PARAMS){.func = params->func, .gridDimX = params->gridDimX, .gridDimY = params->gridDimY,
                                   .gridDimZ = params->gridDimZ, .blockDimX = params->blockDimX, .blockDimY = params->blockDimY,
                                   .blockDimZ = params->blockDimZ, .sharedMemBytes = params->sharedMemBytes,
                                   .kernelParams = params->kernelParams, .extra = params->extra};
}

CUresult impl_cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  CUDA_KERNEL_NODE_PARAMS wide;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  wide = widened(params);
  return impl_cuGraphAddKernelNode_v2(out, graph, before, count, &wide);
}

CUresult impl_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx) {
  struct work work;
  CUresult result = describe_fill(params, ctx, &work);
  if (result != CUDA_SUCCESS) return result;
  return handle_is(graph, KIND_GRAPH) && out ? graph_add(graph, before, count, &work, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_MEMCPY3D *params, CUcontext ctx) {
  struct work work;
  CUresult result = describe_copy(params, ctx, &work);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(graph, KIND_GRAPH) || !out) return CUDA_ERROR_INVALID_VALUE;
  result = graph_add(graph, before, count, &work, out);
  if (result == CUDA_SUCCESS) (*out)->copy = *params;
  return result;
}

static CUresult add_simple(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const struct work *work) {
  return handle_is(graph, KIND_GRAPH) && out ? graph_add(graph, before, count, work, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_HOST_NODE_PARAMS *params) {
  struct work work = {.kind = WORK_HOST};
  if (!params || !params->fn) return CUDA_ERROR_INVALID_VALUE;
  work.function = params->fn;
  work.data = params->userData;
  return add_simple(out, graph, before, count, &work);
}

CUresult impl_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count) {
  struct work work = {.kind = WORK_EMPTY};
  return add_simple(out, graph, before, count, &work);
}

CUresult impl_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child) {
  struct work work = {.kind = WORK_GRAPH, .graph = child};
  if (handle_is(child, KIND_GRAPH) && graph_memory_in(child)) return CUDA_ERROR_NOT_SUPPORTED;
  return handle_is(child, KIND_GRAPH) ? add_simple(out, graph, before, count, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event) {
  struct work work = {.kind = WORK_RECORD, .event = event};
  return handle_is(event, KIND_EVENT) ? add_simple(out, graph, before, count, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event) {
  struct work work = {.kind = WORK_WAIT, .event = event};
  return handle_is(event, KIND_EVENT) ? add_simple(out, graph, before, count, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
  const struct launch *launch;
  if (!handle_is(node, KIND_NODE) || node->work.kind != WORK_KERNEL || !params) return CUDA_ERROR_INVALID_VALUE;
  launch = &node->work.launch;
  *params = (CUDA_KERNEL_NODE_PARAMS){.func = launch->function, .gridDimX = launch->grid[0], .gridDimY = launch->grid[1],
                                      .gridDimZ = launch->grid[2], .blockDimX = launch->block[0], .blockDimY = launch->block[1],
                                      .blockDimZ = launch->block[2], .sharedMemBytes = launch->shared,
                                      .kernelParams = launch->params};
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  struct work work;
  CUresult result = describe_kernel(params, &work);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(node, KIND_NODE) || node->work.kind != WORK_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  return node_set_work(node, &work);
}

/* The node of a running graph that stands for a node of the graph it was made from. */
static CUgraphNode twin(CUgraphExec exec, CUgraphNode node) {
  if (!handle_is(exec, KIND_EXEC)) return NULL;
  for (CUgraphNode own = exec->graph->nodes; own; own = own->next) {
    if (own->origin == node) return own;
  }
  return NULL;
}

CUresult impl_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  CUgraphNode own = twin(exec, node);
  return own ? impl_cuGraphKernelNodeSetParams_v2(own, params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  CUDA_KERNEL_NODE_PARAMS wide;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  wide = widened(params);
  return impl_cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}

CUresult impl_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  if (!handle_is(node, KIND_NODE) || node->work.kind != WORK_GRAPH || !graph) return CUDA_ERROR_INVALID_VALUE;
  *graph = node->work.graph;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  struct work work = {.kind = WORK_GRAPH, .graph = child};
  CUgraphNode own = twin(exec, node);
  return own && own->work.kind == WORK_GRAPH && handle_is(child, KIND_GRAPH) ? node_set_work(own, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx) {
  CUgraphNode own = twin(exec, node);
  struct work work;
  CUresult result = describe_fill(params, ctx, &work);
  if (result != CUDA_SUCCESS) return result;
  return own && own->work.kind == WORK_MOVE ? node_set_work(own, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext ctx) {
  CUgraphNode own = twin(exec, node);
  struct work work;
  CUresult result = describe_copy(params, ctx, &work);
  if (result != CUDA_SUCCESS) return result;
  return own && own->work.kind == WORK_MOVE ? node_set_work(own, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
  CUgraphNode own = twin(exec, node);
  struct work work = {.kind = WORK_HOST};
  if (!own || own->work.kind != WORK_HOST || !params || !params->fn) return CUDA_ERROR_INVALID_VALUE;
  work.function = params->fn;
  work.data = params->userData;
  return node_set_work(own, &work);
}

CUresult impl_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  CUgraphNode own = twin(exec, node);
  if (!own) return CUDA_ERROR_INVALID_VALUE;
  own->disabled = !enabled;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
  CUgraphNode own = twin(exec, node);
  if (!own || !enabled) return CUDA_ERROR_INVALID_VALUE;
  *enabled = !own->disabled;
  return CUDA_SUCCESS;
}
