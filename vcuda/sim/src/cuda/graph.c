#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "condition.h"
#include "graph_memory.h"
#include "impl.h"
#include "module.h"

bool node_set_has(const struct node_set *set, const struct CUgraphNode_st *node) {
  for (size_t i = 0; i < set->count; i++) {
    if (set->nodes[i] == node) return true;
  }
  return false;
}

CUresult node_set_add(struct node_set *set, CUgraphNode node) {
  CUgraphNode *grown;
  if (node_set_has(set, node)) return CUDA_SUCCESS;
  grown = realloc(set->nodes, (set->count + 1) * sizeof(CUgraphNode));
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  set->nodes = grown;
  set->nodes[set->count++] = node;
  return CUDA_SUCCESS;
}

void node_set_clear(struct node_set *set) {
  free(set->nodes);
  *set = (struct node_set){0};
}

CUresult node_set_copy(struct node_set *to, const struct node_set *from) {
  CUresult result = CUDA_SUCCESS;
  node_set_clear(to);
  for (size_t i = 0; i < from->count && result == CUDA_SUCCESS; i++) result = node_set_add(to, from->nodes[i]);
  return result;
}

CUgraph graph_new(void) {
  CUgraph graph = handle_new(KIND_GRAPH, sizeof *graph);
  if (graph) graph->last = &graph->nodes;
  return graph;
}

static void clear_work(CUgraphNode node) {
  free(node->values);
  free(node->pointers);
  node->values = NULL;
  node->pointers = NULL;
  if (node->work.kind == WORK_GRAPH && node->work.graph) graph_drop(node->work.graph);
  if (node->work.kind == WORK_ALLOC) graph_memory_drop(node->work.memory);
  if (node->work.kind == WORK_CONDITION && node->work.condition) condition_drop(node->work.condition);
  node->work = (struct work){.kind = WORK_EMPTY};
}

void node_drop(CUgraphNode node) {
  clear_work(node);
  node_set_clear(&node->before);
  handle_free(node);
}

void graph_drop(CUgraph graph) {
  while (graph->nodes) {
    CUgraphNode node = graph->nodes;
    graph->nodes = node->next;
    node_drop(node);
  }
  handle_free(graph);
}

/* The parameters belong to the program and may be gone after the call: keep their values. */
static CUresult keep_params(CUgraphNode node) {
  const struct launch *launch = &node->work.launch;
  const struct image_kernel *kernel = launch->function->kernel;
  uint32_t count = kernel->param_count;
  size_t bytes = 0;
  if (!launch->params || count == 0) return CUDA_SUCCESS;
  for (uint32_t i = 0; i < count; i++) bytes += (kernel->size[i] + 15u) / 16 * 16;
  node->values = malloc(bytes);
  node->pointers = calloc(count, sizeof(void *));
  if (!node->values || !node->pointers) return CUDA_ERROR_OUT_OF_MEMORY;
  bytes = 0;
  for (uint32_t i = 0; i < count; i++) {
    node->pointers[i] = (char *)node->values + bytes;
    memcpy(node->pointers[i], launch->params[i], kernel->size[i]);
    bytes += (kernel->size[i] + 15u) / 16 * 16;
  }
  node->work.launch.params = node->pointers;
  return CUDA_SUCCESS;
}

CUresult node_set_work(CUgraphNode node, const struct work *work) {
  struct work kept = *work;
  if (work->kind == WORK_GRAPH) {
    kept.graph = graph_copy(work->graph);
    if (!kept.graph) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (kept.kind == WORK_ALLOC) graph_memory_hold(kept.memory);
  if (work->kind == WORK_CONDITION) {
    kept.condition = condition_copy(work->condition);
    if (!kept.condition) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  clear_work(node);
  node->work = kept;
  return kept.kind == WORK_KERNEL ? keep_params(node) : CUDA_SUCCESS;
}

CUresult graph_add(CUgraph graph, const CUgraphNode *before, size_t count, const struct work *work, CUgraphNode *out) {
  CUgraphNode node;
  CUresult result = CUDA_SUCCESS;
  if (count && !before) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (!handle_is(before[i], KIND_NODE) || before[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  }
  node = handle_new(KIND_NODE, sizeof *node);
  if (!node) return CUDA_ERROR_OUT_OF_MEMORY;
  node->graph = graph;
  node->work.kind = WORK_EMPTY;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) result = node_set_add(&node->before, before[i]);
  if (result == CUDA_SUCCESS) result = node_set_work(node, work);
  if (result != CUDA_SUCCESS) {
    node_drop(node);
    return result;
  }
  *graph->last = node;
  graph->last = &node->next;
  graph->count++;
  *out = node;
  return CUDA_SUCCESS;
}

static CUgraphNode copied(CUgraph copy, CUgraphNode origin) {
  CUgraphNode node = copy->nodes;
  while (node && node->origin != origin) node = node->next;
  return node;
}

/* First the nodes, then their edges, which may point backwards. */
CUgraph graph_copy(CUgraph graph) {
  CUgraph copy = graph_new();
  CUresult result = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  for (CUgraphNode node = graph->nodes; node && result == CUDA_SUCCESS; node = node->next) {
    CUgraphNode twin = NULL;
    result = graph_add(copy, NULL, 0, &node->work, &twin);
    if (result != CUDA_SUCCESS) break;
    twin->origin = node;
    twin->copy = node->copy;
    twin->disabled = node->disabled;
  }
  for (CUgraphNode node = graph->nodes; node && result == CUDA_SUCCESS; node = node->next) {
    CUgraphNode twin = copied(copy, node);
    for (size_t i = 0; i < node->before.count && result == CUDA_SUCCESS; i++) {
      result = node_set_add(&twin->before, copied(copy, node->before.nodes[i]));
    }
  }
  if (result == CUDA_SUCCESS) return copy;
  if (copy) graph_drop(copy);
  return NULL;
}

static bool may_run(const struct CUgraphNode_st *node) {
  for (size_t i = 0; i < node->before.count; i++) {
    if (!node->before.nodes[i]->mark) return false;
  }
  return true;
}

/* Brings the nodes into an order in which they may run; false when there is a circle. */
static bool sort(CUgraph graph) {
  CUgraphNode sorted = NULL, *end = &sorted;
  for (CUgraphNode node = graph->nodes; node; node = node->next) node->mark = 0;
  while (graph->nodes) {
    CUgraphNode *link = &graph->nodes, node;
    while (*link && !may_run(*link)) link = &(*link)->next;
    if (!*link) break;
    node = *link;
    *link = node->next;
    node->mark = 1;
    node->next = NULL;
    *end = node;
    end = &node->next;
  }
  if (graph->nodes) {
    *end = graph->nodes;
    graph->nodes = sorted;
    return false;
  }
  graph->nodes = sorted;
  graph->last = end;
  return true;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
  CUgraphExec exec;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(graph, KIND_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  exec = handle_new(KIND_EXEC, sizeof *exec);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->flags = flags;
  exec->graph = graph_copy(graph);
  if (!exec->graph || !sort(exec->graph)) {
    CUresult result = exec->graph ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    if (exec->graph) graph_drop(exec->graph);
    handle_free(exec);
    return result;
  }
  *out = exec;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}

CUresult impl_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t size) {
  if (bad) *bad = NULL;
  if (log && size) *log = '\0';
  return instantiate(out, graph, 0);
}

CUresult impl_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  CUresult result;
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  result = instantiate(out, graph, params->flags);
  params->hErrNode_out = NULL;
  params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult impl_cuGraphExecDestroy(CUgraphExec exec) {
  if (!handle_is(exec, KIND_EXEC)) return CUDA_ERROR_INVALID_VALUE;
  graph_drop(exec->graph);
  handle_free(exec);
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags) {
  if (!handle_is(exec, KIND_EXEC) || !flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

static bool on_compute(const struct work *work) {
  return work->kind == WORK_KERNEL || (work->kind == WORK_MOVE && work->engine == SIM_OP_FILL);
}

/* Kernels that follow each other go to the card as one piece of work: a graph has no gaps between them. The bytes of fills
 * and copies move at once, as everywhere. */
static CUresult run(CUgraph graph, struct CUstream_st *stream) {
  struct work kernels = {.kind = WORK_KERNEL, .engine = SIM_OP_KERNEL};
  CUresult result = CUDA_SUCCESS;
  for (CUgraphNode node = graph->nodes; node && result == CUDA_SUCCESS; node = node->next) {
    if (node->disabled || node->work.kind == WORK_EMPTY) continue;
    if (on_compute(&node->work) && !(node->work.kind == WORK_MOVE && host_pending())) {
      if (node->work.kind == WORK_MOVE) move_run(&node->work.move);
      kernels.cost_ns += node->work.cost_ns;
      continue;
    }
    if (kernels.cost_ns) result = work_enqueue(stream, &kernels, NULL);
    kernels.cost_ns = 0;
    if (result != CUDA_SUCCESS) return result;
    if (node->work.kind == WORK_GRAPH) result = run(node->work.graph, stream);
    else if (node->work.kind == WORK_CONDITION) result = condition_run(node->work.condition, run, stream);
    else result = work_enqueue(stream, &node->work, NULL);
  }
  return result == CUDA_SUCCESS && kernels.cost_ns ? work_enqueue(stream, &kernels, NULL) : result;
}

CUresult impl_cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(exec, KIND_EXEC)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) {
    struct work child = {.kind = WORK_GRAPH, .graph = exec->graph};
    return work_submit(stream, &child, NULL);
  }
  result = graph_memory_begin(exec, stream);
  if (result != CUDA_SUCCESS) return result;
  sim_spend(&driver.node, driver.node.node->options.launch_ns);
  result = run(exec->graph, stream);
  graph_memory_end(exec, stream);
  return result;
}

CUresult impl_cuGraphUpload(CUgraphExec exec, CUstream handle) {
  struct CUstream_st *stream;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(exec, KIND_EXEC)) return CUDA_ERROR_INVALID_VALUE;
  return graph_memory_upload(exec, stream);
}
