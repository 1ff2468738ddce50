/* Memory that graphs allocate: nothing before a launch, reused in a stream, kept until it is trimmed. */
#include "check.h"

#define CONTEXT (256 * MIB + MODULE)

static CUcontext ctx;
static CUfunction kernel;

static uint64_t used(void) { return node_used(0) - CONTEXT; }

static uint64_t attribute(CUgraphMem_attribute which) {
  cuuint64_t value = 0;
  OK(cuDeviceGetGraphMemAttribute(0, which, &value));
  return value;
}

static CUgraphNode add_alloc(CUgraph graph, CUgraphNode after, uint64_t bytes, CUdeviceptr *out) {
  CUDA_MEM_ALLOC_NODE_PARAMS params = {
      .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}}, .bytesize = bytes};
  CUgraphNode node;
  OK(cuGraphAddMemAllocNode(&node, graph, after ? &after : NULL, after != NULL, &params));
  *out = params.dptr;
  return node;
}

static CUgraphNode add_free(CUgraph graph, CUgraphNode after, CUdeviceptr pointer) {
  CUgraphNode node;
  OK(cuGraphAddMemFreeNode(&node, graph, &after, 1, pointer));
  return node;
}

static CUgraphNode add_fill(CUgraph graph, CUgraphNode after, CUdeviceptr pointer, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS params = {.dst = pointer, .elementSize = 4, .value = value, .width = 16, .height = 1};
  CUgraphNode node;
  OK(cuGraphAddMemsetNode(&node, graph, &after, 1, &params, ctx));
  return node;
}

static void memory_is_there_from_the_launch_and_stays_until_it_is_trimmed(void) {
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node, first, clone;
  CUgraphNodeType type;
  CUdeviceptr a, b;
  OK(cuGraphCreate(&graph, 0));
  first = node = add_alloc(graph, NULL, 64 * MIB, &a);
  node = add_fill(graph, node, a, 7);
  node = add_free(graph, node, a);
  node = add_alloc(graph, node, 60 * MIB, &b); /* fits into what the first one had */
  add_free(graph, node, b);
  CHECK(a != b);
  EQUAL(cuGraphAddMemFreeNode(&clone, graph, &node, 1, a), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuGraphClone(&graph, graph), CUDA_ERROR_NOT_SUPPORTED);
  EQUAL(cuGraphDestroyNode(first), CUDA_ERROR_NOT_SUPPORTED);
  OK(cuGraphNodeGetType(first, &type));
  EQUAL(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  OK(cuGraphInstantiate(&exec, graph, 0));
  EQUAL(used(), 0);
  for (int i = 0; i < 3; i++) {
    OK(cuGraphLaunch(exec, NULL));
    OK(cuStreamSynchronize(NULL));
    EQUAL(used(), 64 * MIB);
  }
  EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
  EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 64 * MIB);
  EQUAL(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  EQUAL(used(), 64 * MIB);
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 0);
  EQUAL(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
}

static void what_the_graph_does_not_free_lives_on(void) {
  CUgraph graph;
  CUgraphExec exec, own;
  CUgraphNode node;
  CUdeviceptr a;
  uint32_t word = 0;
  OK(cuGraphCreate(&graph, 0));
  node = add_alloc(graph, NULL, 32 * MIB, &a);
  add_fill(graph, node, a, 9);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphInstantiate(&own, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  OK(cuGraphLaunch(exec, NULL));
  OK(cuMemcpyDtoH(&word, a, 4));
  EQUAL(word, 9);
  EQUAL(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE); /* not freed yet */
  OK(cuMemFreeAsync(a, NULL));
  EQUAL(cuMemFreeAsync(a, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphLaunch(exec, NULL));
  OK(cuMemFree(a));
  OK(cuGraphLaunch(own, NULL));
  OK(cuGraphLaunch(own, NULL)); /* frees by itself */
  EQUAL(used(), 32 * MIB);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphExecDestroy(own));
  OK(cuGraphDestroy(graph));
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 32 * MIB); /* still allocated */
  OK(cuMemFree(a));
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 0);
}

static void what_is_in_use_is_not_trimmed(void) {
  CUstream stream;
  CUgraph graph, other;
  CUgraphExec exec, second;
  CUgraphNode node;
  CUdeviceptr a, b;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(&a, 100 * MIB, stream));
  launch_busy(kernel, 50 * MS, stream);
  OK(cuMemFreeAsync(a, stream));
  OK(cuStreamEndCapture(stream, &graph));
  EQUAL(used(), 0);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphUpload(exec, stream));
  EQUAL(used(), 100 * MIB);
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(exec, stream)); /* the same memory, in stream order */
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 100 * MIB);
  OK(cuGraphCreate(&other, 0)); /* another stream gets memory of its own while the first is busy */
  node = add_alloc(other, NULL, 100 * MIB, &b);
  add_free(other, node, b);
  OK(cuGraphInstantiate(&second, other, 0));
  OK(cuGraphLaunch(second, NULL));
  EQUAL(used(), 200 * MIB);
  OK(cuCtxSynchronize());
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphExecDestroy(second));
}

static void a_launch_without_room_is_refused(void) {
  CUgraph graph;
  CUgraphExec exec;
  CUdeviceptr big, a, b;
  OK(cuMemAlloc(&big, 78 * GIB));
  OK(cuGraphCreate(&graph, 0));
  add_alloc(graph, NULL, 400 * MIB, &a);
  add_alloc(graph, NULL, GIB, &b);
  OK(cuGraphInstantiate(&exec, graph, 0));
  EQUAL(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(big));
  OK(cuGraphLaunch(exec, NULL));
  OK(cuMemFree(a));
  OK(cuMemFree(b));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuDeviceGraphMemTrim(0));
  EQUAL(used(), 0);
}

int main(void) {
  make_node("--cards h100 --time virtual");
  ctx = use_device(0);
  kernel = busy_kernel();
  memory_is_there_from_the_launch_and_stays_until_it_is_trimmed();
  what_the_graph_does_not_free_lives_on();
  what_is_in_use_is_not_trimmed();
  a_launch_without_room_is_refused();
  return 0;
}
