/* Virtual memory management: physical memory is charged from cuMemCreate to the last release and unmapping. */
#include "check.h"

#define CONTEXT (256 * MIB)

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static uint64_t used(void) { return node_used(0) - CONTEXT; }

static void memory_stays_while_it_is_mapped(void) {
  CUmemGenericAllocationHandle physical;
  CUdeviceptr a, b;
  uint32_t word = 0;
  OK(cuMemCreate(&physical, 64 * MIB, &on_device, 0));
  EQUAL(used(), 64 * MIB);
  OK(cuMemAddressReserve(&a, 128 * MIB, 0, 0, 0));
  OK(cuMemAddressReserve(&b, 64 * MIB, 0, 0, 0));
  EQUAL(used(), 64 * MIB);
  OK(cuMemMap(a, 64 * MIB, 0, physical, 0));
  OK(cuMemMap(b, 64 * MIB, 0, physical, 0));
  OK(cuMemRelease(physical));
  EQUAL(used(), 64 * MIB);
  OK(cuMemSetAccess(a, 64 * MIB, &read_write, 1));
  OK(cuMemSetAccess(b, 64 * MIB, &read_write, 1));
  OK(cuMemsetD32(a + 4096, 0xfeed, 1));
  OK(cuMemcpyDtoH(&word, b + 4096, 4)); /* one memory, two addresses */
  EQUAL(word, 0xfeed);
  OK(cuMemsetD8(a, 0, 64 * MIB));
  OK(cuMemcpyDtoH(&word, b + 4096, 4));
  EQUAL(word, 0);
  OK(cuMemUnmap(a, 64 * MIB));
  EQUAL(used(), 64 * MIB);
  EQUAL(cuMemcpyDtoH(&word, a, 4), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemUnmap(b, 64 * MIB));
  EQUAL(used(), 0);
  OK(cuMemAddressFree(a, 128 * MIB));
  OK(cuMemAddressFree(b, 64 * MIB));
}

static void a_row_of_mappings_is_one_range(void) {
  CUmemGenericAllocationHandle physical[4];
  CUdeviceptr base;
  static unsigned char host[6 * 1024 * 1024];
  OK(cuMemAddressReserve(&base, 8 * MIB, 0, 0, 0));
  for (unsigned i = 0; i < 4; i++) {
    OK(cuMemCreate(&physical[i], 2 * MIB, &on_device, 0));
    OK(cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, physical[i], 0));
  }
  OK(cuMemSetAccess(base, 8 * MIB, &read_write, 1));
  OK(cuMemsetD8(base, 5, 8 * MIB));
  OK(cuMemcpyDtoH(host, base + MIB, sizeof host));
  EQUAL(host[sizeof host - 1], 5);
  EQUAL(cuMemUnmap(base + MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemUnmap(base, 8 * MIB));
  for (int i = 0; i < 4; i++) OK(cuMemRelease(physical[i]));
  EQUAL(used(), 0);
  OK(cuMemAddressFree(base, 8 * MIB));
}

static void the_card_is_the_limit(void) {
  CUmemGenericAllocationHandle most, more;
  size_t granularity;
  OK(cuMemGetAllocationGranularity(&granularity, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EQUAL(granularity, 2 * MIB);
  EQUAL(cuMemCreate(&most, MIB, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemCreate(&most, 78 * GIB, &on_device, 0));
  EQUAL(cuMemCreate(&more, 2 * GIB, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemRelease(most));
  EQUAL(cuMemRelease(most), CUDA_ERROR_INVALID_VALUE);
  EQUAL(used(), 0);
}

int main(void) {
  make_node("--cards h100 --time virtual");
  use_device(0);
  memory_stays_while_it_is_mapped();
  a_row_of_mappings_is_one_range();
  the_card_is_the_limit();
  return 0;
}
