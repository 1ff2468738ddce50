/* Looking at graphs and changing their edges. */
#include <stdio.h>

#include "graph_memory.h"
#include "impl.h"

CUresult impl_cuGraphCreate(CUgraph *out, unsigned flags) {
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  *out = graph_new();
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuGraphDestroy(CUgraph graph) {
  if (!handle_is(graph, KIND_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  graph_drop(graph);
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphClone(CUgraph *out, CUgraph graph) {
  if (!out || !handle_is(graph, KIND_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  if (graph_memory_in(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  *out = graph_copy(graph);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode origin, CUgraph clone) {
  if (!out || !handle_is(clone, KIND_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphNode node = clone->nodes; node; node = node->next) {
    if (node->origin != origin) continue;
    *out = node;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  if (!handle_is(node, KIND_NODE) || !type) return CUDA_ERROR_INVALID_VALUE;
  switch (node->work.kind) {
    case WORK_KERNEL: *type = CU_GRAPH_NODE_TYPE_KERNEL; break;
    case WORK_MOVE: *type = node->work.move.kind == MOVE_FILL ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY; break;
    case WORK_HOST: *type = CU_GRAPH_NODE_TYPE_HOST; break;
    case WORK_RECORD: *type = CU_GRAPH_NODE_TYPE_EVENT_RECORD; break;
    case WORK_WAIT: *type = CU_GRAPH_NODE_TYPE_WAIT_EVENT; break;
    case WORK_GRAPH: *type = CU_GRAPH_NODE_TYPE_GRAPH; break;
    case WORK_ALLOC: *type = CU_GRAPH_NODE_TYPE_MEM_ALLOC; break;
    case WORK_FREE: *type = CU_GRAPH_NODE_TYPE_MEM_FREE; break;
    case WORK_CONDITION: *type = CU_GRAPH_NODE_TYPE_CONDITIONAL; break;
    case WORK_EMPTY: *type = CU_GRAPH_NODE_TYPE_EMPTY; break;
  }
  return CUDA_SUCCESS;
}

/* With room NULL only the number is asked for. */
static CUresult give(CUgraphNode *room, size_t *count, CUgraphNode node, size_t *found) {
  if (room && *found < *count) room[*found] = node;
  ++*found;
  return CUDA_SUCCESS;
}

static CUresult list(CUgraph graph, CUgraphNode *room, size_t *count, bool roots) {
  size_t found = 0;
  if (!handle_is(graph, KIND_GRAPH) || !count) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphNode node = graph->nodes; node; node = node->next) {
    if (!roots || node->before.count == 0) give(room, count, node, &found);
  }
  for (size_t i = found; room && i < *count; i++) room[i] = NULL;
  *count = found;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphGetNodes(CUgraph graph, CUgraphNode *room, size_t *count) { return list(graph, room, count, false); }
CUresult impl_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *room, size_t *count) { return list(graph, room, count, true); }

CUresult impl_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  size_t found = 0;
  if (!handle_is(graph, KIND_GRAPH) || !count || !from != !to) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphNode node = graph->nodes; node; node = node->next) {
    for (size_t i = 0; i < node->before.count; i++, found++) {
      if (!from || found >= *count) continue;
      from[found] = node->before.nodes[i];
      to[found] = node;
    }
  }
  *count = found;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *room, size_t *count) {
  size_t found = 0;
  if (!handle_is(node, KIND_NODE) || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < node->before.count; i++) give(room, count, node->before.nodes[i], &found);
  *count = found;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *room, size_t *count) {
  size_t found = 0;
  if (!handle_is(node, KIND_NODE) || !count) return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphNode other = node->graph->nodes; other; other = other->next) {
    if (node_set_has(&other->before, node)) give(room, count, other, &found);
  }
  *count = found;
  return CUDA_SUCCESS;
}

static void remove_edge(CUgraphNode from, CUgraphNode to) {
  size_t kept = 0;
  for (size_t i = 0; i < to->before.count; i++) {
    if (to->before.nodes[i] != from) to->before.nodes[kept++] = to->before.nodes[i];
  }
  to->before.count = kept;
}

static bool same_graph(CUgraph graph, CUgraphNode a, CUgraphNode b) {
  return handle_is(a, KIND_NODE) && handle_is(b, KIND_NODE) && a->graph == graph && b->graph == graph && a != b;
}

CUresult impl_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  CUresult result = CUDA_SUCCESS;
  if (!handle_is(graph, KIND_GRAPH) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (!same_graph(graph, from[i], to[i]) || node_set_has(&to[i]->before, from[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) result = node_set_add(&to[i]->before, from[i]);
  return result;
}

CUresult impl_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  if (!handle_is(graph, KIND_GRAPH) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
  if (graph_memory_in(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count; i++) {
    if (!same_graph(graph, from[i], to[i]) || !node_set_has(&to[i]->before, from[i])) return CUDA_ERROR_INVALID_VALUE;
    remove_edge(from[i], to[i]);
  }
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphDestroyNode(CUgraphNode node) {
  CUgraph graph;
  CUgraphNode *link;
  if (!handle_is(node, KIND_NODE)) return CUDA_ERROR_INVALID_VALUE;
  graph = node->graph;
  if (graph_memory_in(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (CUgraphNode other = graph->nodes; other; other = other->next) remove_edge(node, other);
  for (link = &graph->nodes; *link && *link != node;) link = &(*link)->next;
  if (!*link) return CUDA_ERROR_INVALID_VALUE;
  *link = node->next;
  if (graph->last == &node->next) graph->last = link;
  graph->count--;
  node_drop(node);
  return CUDA_SUCCESS;
}

/* Node by node in order of creation: the same kinds and the same edges, other parameters. */
CUresult impl_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  CUgraphExec fresh = NULL;
  CUgraph old;
  CUgraphNode a, b;
  if (!handle_is(exec, KIND_EXEC) || !handle_is(graph, KIND_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  if (impl_cuGraphInstantiateWithFlags(&fresh, graph, exec->flags) != CUDA_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (a = exec->graph->nodes, b = fresh->graph->nodes; a && b; a = a->next, b = b->next) {
    if (a->work.kind != b->work.kind || a->before.count != b->before.count) break;
  }
  if (info) *info = (CUgraphExecUpdateResultInfo){.result = a || b ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED : CU_GRAPH_EXEC_UPDATE_SUCCESS};
  if (a || b) {
    impl_cuGraphExecDestroy(fresh);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  /* The program keeps addressing nodes by those of the first graph. */
  for (a = exec->graph->nodes, b = fresh->graph->nodes; a; a = a->next, b = b->next) b->origin = a->origin;
  old = exec->graph;
  exec->graph = fresh->graph;
  fresh->graph = old;
  return impl_cuGraphExecDestroy(fresh);
}

CUresult impl_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags) {
  FILE *file;
  (void)flags;
  if (!handle_is(graph, KIND_GRAPH) || !path) return CUDA_ERROR_INVALID_VALUE;
  file = fopen(path, "we");
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  fputs("digraph {\n", file);
  for (CUgraphNode node = graph->nodes; node; node = node->next) {
    fprintf(file, "  n%p [label=\"%d\"];\n", (void *)node, (int)node->work.kind);
    for (size_t i = 0; i < node->before.count; i++) fprintf(file, "  n%p -> n%p;\n", (void *)node->before.nodes[i], (void *)node);
  }
  fputs("}\n", file);
  return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
