/* Graphs, made by hand and by capture. */
#include <string.h>

#include "check.h"
#include "tessera_sim.h"

static CUfunction kernel;
static CUcontext ctx;

static uint64_t now(void) {
  uint64_t ns;
  EQUAL(tesseraSimNow(&ns), 0);
  return ns;
}

static uint64_t time_of(CUgraphExec exec) {
  uint64_t begin;
  OK(cuCtxSynchronize());
  begin = now();
  OK(cuGraphLaunch(exec, NULL));
  OK(cuCtxSynchronize());
  return now() - begin;
}

static CUDA_KERNEL_NODE_PARAMS busy(void **params) {
  return (CUDA_KERNEL_NODE_PARAMS){.func = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                                   .blockDimZ = 1, .kernelParams = params};
}

static void a_graph_takes_as_long_as_its_kernels(void) {
  CUgraph graph;
  CUgraphNode first, second;
  CUgraphExec exec;
  uint64_t ns = 2 * MS;
  void *params[] = {&ns};
  CUDA_KERNEL_NODE_PARAMS node = busy(params);
  size_t count = 0;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &node));
  ns = 3 * MS; /* the first node keeps the value it was given */
  OK(cuGraphAddKernelNode(&second, graph, &first, 1, &node));
  OK(cuGraphGetNodes(graph, NULL, &count));
  EQUAL(count, 2);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  EQUAL(time_of(exec), 5 * MS + 3 * US);
  EQUAL(time_of(exec), 5 * MS + 3 * US);
  ns = 10 * MS;
  OK(cuGraphExecKernelNodeSetParams(exec, second, &node));
  EQUAL(time_of(exec), 12 * MS + 3 * US);
  OK(cuGraphNodeSetEnabled(exec, first, 0));
  EQUAL(time_of(exec), 10 * MS + 3 * US);
  OK(cuGraphExecDestroy(exec));
}

static void circles_are_refused(void) {
  CUgraph graph;
  CUgraphNode a, b;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
  OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
  OK(cuGraphAddDependencies(graph, &b, &a, 1));
  EQUAL(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphRemoveDependencies(graph, &b, &a, 1));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

static void capture_records_instead_of_running(void) {
  CUstream s, t;
  CUevent fork, join;
  CUgraph graph;
  CUgraphExec exec;
  CUstreamCaptureStatus status;
  CUdeviceptr memory;
  size_t nodes = 0, edges = 0;
  unsigned char bytes[16];
  uint64_t begin = now();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&fork, 0));
  OK(cuEventCreate(&join, 0));
  OK(cuMemAlloc(&memory, 16));
  OK(cuMemsetD8(memory, 1, 16));
  OK(cuCtxSynchronize());
  begin = now();
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuStreamIsCapturing(s, &status));
  EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  launch_busy(kernel, 1 * MS, s);
  OK(cuEventRecord(fork, s));
  OK(cuStreamWaitEvent(t, fork, 0));
  launch_busy(kernel, 2 * MS, t);
  OK(cuMemsetD8Async(memory, 9, 8, s));
  OK(cuEventRecord(join, t));
  OK(cuStreamWaitEvent(s, join, 0));
  launch_busy(kernel, 4 * MS, s);
  OK(cuStreamEndCapture(s, &graph));
  EQUAL(now(), begin); /* capturing costs no time on the card, and none here */
  OK(cuMemcpyDtoH(bytes, memory, 16));
  EQUAL(bytes[0], 1);
  OK(cuGraphGetNodes(graph, NULL, &nodes));
  OK(cuGraphGetEdges(graph, NULL, NULL, &edges));
  EQUAL(nodes, 4);
  EQUAL(edges, 4);
  OK(cuGraphInstantiate(&exec, graph, 0));
  begin = time_of(exec);
  CHECK(begin >= 7 * MS && begin < 7 * MS + 10 * US);
  OK(cuMemcpyDtoH(bytes, memory, 16));
  EQUAL(bytes[0], 9);
  EQUAL(bytes[8], 1);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemFree(memory));
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
  OK(cuStreamDestroy(s));
  OK(cuStreamDestroy(t));
}

static void captures_that_cannot_be(void) {
  CUstream s, t;
  CUevent fork;
  CUgraph graph;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&fork, 0));
  EQUAL(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EQUAL(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EQUAL(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuEventRecord(fork, s));
  OK(cuStreamWaitEvent(t, fork, 0));
  launch_busy(kernel, 1, t); /* never waited for */
  EQUAL(cuStreamEndCapture(t, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EQUAL(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  launch_busy(kernel, 1, t); /* both streams are free again */
  OK(cuStreamSynchronize(t));
  OK(cuEventDestroy(fork));
  OK(cuStreamDestroy(s));
  OK(cuStreamDestroy(t));
}

static void updates_keep_the_shape(void) {
  CUgraph graph, other;
  CUgraphNode node, more;
  CUgraphExec exec;
  CUgraphExecUpdateResultInfo info;
  uint64_t ns = 1 * MS;
  void *params[] = {&ns};
  CUDA_KERNEL_NODE_PARAMS description = busy(params);
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &description));
  OK(cuGraphInstantiate(&exec, graph, 0));
  ns = 6 * MS;
  OK(cuGraphCreate(&other, 0));
  OK(cuGraphAddKernelNode(&node, other, NULL, 0, &description));
  OK(cuGraphExecUpdate(exec, other, &info));
  EQUAL(time_of(exec), 6 * MS + 3 * US);
  OK(cuGraphAddEmptyNode(&more, other, NULL, 0));
  EQUAL(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EQUAL(time_of(exec), 6 * MS + 3 * US);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(other));
}

/* A body that nobody's value changes: as often, or the one, that the default says. */
static uint64_t time_of_condition(CUgraphConditionalNodeType type, unsigned bodies, unsigned value) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  CUgraph graph;
  CUgraphNode node, inner;
  CUgraphNodeType found;
  CUgraphExec exec;
  uint64_t ns = 1 * MS, took;
  void *values[] = {&ns};
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, ctx, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  params.conditional.type = type;
  params.conditional.size = bodies;
  OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
  for (unsigned i = 0; i < bodies; i++, ns += 1 * MS) {
    CUDA_KERNEL_NODE_PARAMS description = busy(values);
    OK(cuGraphAddKernelNode(&inner, params.conditional.phGraph_out[i], NULL, 0, &description));
  }
  OK(cuGraphNodeGetType(node, &found));
  EQUAL(found, CU_GRAPH_NODE_TYPE_CONDITIONAL);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  took = time_of(exec) - 3 * US;
  OK(cuGraphExecDestroy(exec));
  return took;
}

static void conditions_choose_bodies(void) {
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_IF, 2, 1), 1 * MS);
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_IF, 2, 0), 2 * MS);
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_IF, 1, 0), 0);
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_WHILE, 1, 5), 5 * MS);
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_SWITCH, 3, 2), 3 * MS);
  EQUAL(time_of_condition(CU_GRAPH_COND_TYPE_SWITCH, 3, 3), 0);
}

static void a_child_graph_can_be_looked_at_and_exchanged(void) {
  CUgraph graph, child, found;
  CUgraphNode node, inner;
  CUgraphExec exec;
  uint64_t ns = 1 * MS;
  void *values[] = {&ns};
  CUDA_KERNEL_NODE_PARAMS description = busy(values);
  size_t count = 0;
  OK(cuGraphCreate(&child, 0));
  OK(cuGraphAddKernelNode(&inner, child, NULL, 0, &description));
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
  OK(cuGraphChildGraphNodeGetGraph(node, &found));
  OK(cuGraphGetNodes(found, NULL, &count));
  EQUAL(count, 1);
  OK(cuGraphInstantiate(&exec, graph, 0));
  EQUAL(time_of(exec), 1 * MS + 3 * US);
  ns = 4 * MS;
  OK(cuGraphKernelNodeSetParams(inner, &description));
  OK(cuGraphExecChildGraphNodeSetParams(exec, node, child));
  EQUAL(time_of(exec), 4 * MS + 3 * US);
  EQUAL(cuGraphChildGraphNodeGetGraph(inner, &found), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(child));
}

int main(void) {
  make_node("--cards h100 --time virtual");
  ctx = use_device(0);
  kernel = busy_kernel();
  a_graph_takes_as_long_as_its_kernels();
  circles_are_refused();
  capture_records_instead_of_running();
  captures_that_cannot_be();
  updates_keep_the_shape();
  conditions_choose_bodies();
  a_child_graph_can_be_looked_at_and_exchanged();
  return 0;
}
