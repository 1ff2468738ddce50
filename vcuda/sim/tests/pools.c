/* Stream-ordered memory: charged until the stream has come to the free and the pool lets go. */
#include "check.h"

#define CONTEXT (256 * MIB + MODULE)

static CUfunction kernel;
static CUstream stream;

static uint64_t used(void) { return node_used(0) - CONTEXT; }

static void a_free_takes_effect_in_stream_order(void) {
  CUdeviceptr p;
  OK(cuMemAllocAsync(&p, 100 * MIB, stream));
  launch_busy(kernel, 10 * MS, stream);
  OK(cuMemFreeAsync(p, stream));
  EQUAL(used(), 100 * MIB);
  EQUAL(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamSynchronize(stream));
  EQUAL(used(), 0);
}

static void the_same_stream_takes_it_again_at_once(void) {
  CUdeviceptr p, q;
  OK(cuMemAllocAsync(&p, 100 * MIB, stream));
  launch_busy(kernel, 10 * MS, stream);
  OK(cuMemFreeAsync(p, stream));
  OK(cuMemAllocAsync(&q, 100 * MIB, stream));
  EQUAL(p, q);
  EQUAL(used(), 100 * MIB);
  OK(cuMemFreeAsync(q, stream));
  OK(cuStreamSynchronize(stream));
  EQUAL(used(), 0);
}

static void a_threshold_keeps_memory_in_the_pool(void) {
  CUmemoryPool pool;
  CUdeviceptr p;
  cuuint64_t threshold = GIB, value;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemAllocAsync(&p, 100 * MIB, stream));
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  EQUAL(used(), 100 * MIB);
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
  EQUAL(value, 100 * MIB);
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  EQUAL(value, 0);
  OK(cuMemPoolTrimTo(pool, 0));
  EQUAL(used(), 0);
  threshold = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

static void own_pools_have_their_own_limit(void) {
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                               .maxSize = 64 * MIB};
  CUmemoryPool pool;
  CUdeviceptr p, q;
  OK(cuMemPoolCreate(&pool, &properties));
  OK(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, stream));
  EQUAL(cuMemAllocFromPoolAsync(&q, 40 * MIB, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(used(), 40 * MIB);
  OK(cuMemPoolDestroy(pool));
  EQUAL(used(), 0);
}

static void a_full_card_waits_for_what_is_being_freed(void) {
  CUdeviceptr p, q;
  OK(cuMemAllocAsync(&p, 60 * GIB, stream));
  launch_busy(kernel, 10 * MS, stream);
  OK(cuMemFreeAsync(p, stream));
  OK(cuMemAllocAsync(&q, 30 * GIB, NULL)); /* of another stream: the memory must really be free */
  OK(cuMemFree(q));
  EQUAL(cuMemAllocAsync(&q, 90 * GIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(used(), 0);
}

static void either_kind_of_free_will_do(void) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, 10 * MIB));
  OK(cuMemFreeAsync(p, stream));
  OK(cuStreamSynchronize(stream));
  EQUAL(used(), 0);
  OK(cuMemAllocAsync(&p, 10 * MIB, stream));
  OK(cuMemFree(p));
  EQUAL(used(), 0);
}

int main(void) {
  make_node("--cards h100 --time virtual");
  use_device(0);
  kernel = busy_kernel();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  a_free_takes_effect_in_stream_order();
  the_same_stream_takes_it_again_at_once();
  a_threshold_keeps_memory_in_the_pool();
  own_pools_have_their_own_limit();
  a_full_card_waits_for_what_is_being_freed();
  either_kind_of_free_will_do();
  return 0;
}
