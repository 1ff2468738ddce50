#include "condition.h"

#include <stdlib.h>

#include "impl.h"

static struct condition *condition_new(CUgraphConditionalNodeType type, unsigned value, unsigned count) {
  struct condition *condition = calloc(1, sizeof *condition);
  if (!condition) return NULL;
  *condition = (struct condition){.type = type, .value = value, .count = count, .bodies = calloc(count, sizeof(CUgraph))};
  if (condition->bodies) return condition;
  free(condition);
  return NULL;
}

void condition_drop(struct condition *condition) {
  for (unsigned i = 0; i < condition->count; i++) {
    if (condition->bodies[i]) graph_drop(condition->bodies[i]);
  }
  free(condition->bodies);
  free(condition);
}

struct condition *condition_copy(const struct condition *condition) {
  struct condition *copy = condition_new(condition->type, condition->value, condition->count);
  for (unsigned i = 0; copy && i < copy->count; i++) {
    copy->bodies[i] = condition->bodies[i] ? graph_copy(condition->bodies[i]) : graph_new();
    if (copy->bodies[i]) continue;
    condition_drop(copy);
    return NULL;
  }
  return copy;
}

CUresult condition_run(const struct condition *condition, CUresult (*run)(CUgraph, struct CUstream_st *), struct CUstream_st *stream) {
  unsigned body = condition->value, times = 1;
  CUresult result = CUDA_SUCCESS;
  if (condition->type == CU_GRAPH_COND_TYPE_IF) body = condition->value ? 0 : 1;
  if (condition->type == CU_GRAPH_COND_TYPE_WHILE) {
    body = 0;
    times = condition->value;
  }
  for (unsigned i = 0; i < times && body < condition->count && result == CUDA_SUCCESS; i++) result = run(condition->bodies[body], stream);
  return result;
}

/* A handle is the default value, with a bit that makes it differ from none. */
#define HANDLE_BIT (1ull << 63)

CUresult impl_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph, CUcontext ctx, unsigned value, unsigned flags) {
  if (!out || !handle_is(graph, KIND_GRAPH) || !handle_is(ctx, KIND_CONTEXT) || flags > CU_GRAPH_COND_ASSIGN_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  *out = HANDLE_BIT | (flags ? value : 0);
  return CUDA_SUCCESS;
}

static bool sensible(const CUDA_CONDITIONAL_NODE_PARAMS *p) {
  if (!(p->handle & HANDLE_BIT) || p->size == 0) return false;
  if (p->type == CU_GRAPH_COND_TYPE_IF) return p->size <= 2;
  return p->type == CU_GRAPH_COND_TYPE_WHILE ? p->size == 1 : p->type == CU_GRAPH_COND_TYPE_SWITCH;
}

static CUresult add_condition(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUDA_CONDITIONAL_NODE_PARAMS *p) {
  struct work work = {.kind = WORK_CONDITION};
  CUresult result;
  if (!sensible(p)) return CUDA_ERROR_INVALID_VALUE;
  work.condition = condition_new(p->type, (unsigned)p->handle, p->size);
  if (!work.condition) return CUDA_ERROR_OUT_OF_MEMORY;
  result = graph_add(graph, before, count, &work, out);
  condition_drop(work.condition);
  if (result == CUDA_SUCCESS) p->phGraph_out = (*out)->work.condition->bodies;
  return result;
}

/* The one call for nodes of every kind. */
CUresult impl_cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeParams *p) {
  if (!out || !handle_is(graph, KIND_GRAPH) || !p) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel = kernel_params(&p->kernel);
      return impl_cuGraphAddKernelNode_v2(out, graph, before, count, &kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return impl_cuGraphAddMemcpyNode(out, graph, before, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS fill = {.dst = p->memset.dst, .pitch = p->memset.pitch, .value = p->memset.value,
                                      .elementSize = p->memset.elementSize, .width = p->memset.width, .height = p->memset.height};
      return impl_cuGraphAddMemsetNode(out, graph, before, count, &fill, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS host = {.fn = p->host.fn, .userData = p->host.userData};
      return impl_cuGraphAddHostNode(out, graph, before, count, &host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return impl_cuGraphAddChildGraphNode(out, graph, before, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return impl_cuGraphAddEmptyNode(out, graph, before, count);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return impl_cuGraphAddEventRecordNode(out, graph, before, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return impl_cuGraphAddEventWaitNode(out, graph, before, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_condition(out, graph, before, count, &p->conditional);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS_v1 alloc = {.poolProps = p->alloc.poolProps, .accessDescs = p->alloc.accessDescs,
                                             .accessDescCount = p->alloc.accessDescCount, .bytesize = p->alloc.bytesize};
      CUresult result = impl_cuGraphAddMemAllocNode(out, graph, before, count, &alloc);
      p->alloc.dptr = alloc.dptr;
      return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return impl_cuGraphAddMemFreeNode(out, graph, before, count, p->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult impl_cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                                CUgraphNodeParams *p) {
  return edges ? CUDA_ERROR_NOT_SUPPORTED : impl_cuGraphAddNode(out, graph, before, count, p);
}

CUresult impl_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) return impl_cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
  if (p->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_NOT_SUPPORTED;
  kernel = kernel_params(&p->kernel);
  return impl_cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel);
}
