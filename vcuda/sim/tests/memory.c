/* What a card is charged for: exactly what the documented rounding says, in every family, and it all comes back. */
#include "check.h"
#include "nvml.h"

#define CAPACITY ((81559ull - 551) * MIB)
#define CONTEXT (256 * MIB)

static void agree(uint64_t used) {
  size_t available, total;
  nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
  nvmlDevice_t device;
  OK(cuMemGetInfo(&available, &total));
  EQUAL(total, CAPACITY);
  EQUAL(total - available, used);
  EQUAL(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
  EQUAL(memory.used, used);
  EQUAL(memory.free, available);
  EQUAL(memory.total, memory.used + memory.free + memory.reserved);
  EQUAL(node_used(0), used);
}

static void large_allocations_round_to_two_mebibytes(void) {
  CUdeviceptr a, b;
  OK(cuMemAlloc(&a, 8 * GIB));
  agree(CONTEXT + 8 * GIB);
  OK(cuMemAlloc(&b, 3 * MIB + 1));
  agree(CONTEXT + 8 * GIB + 4 * MIB);
  OK(cuMemFree(b));
  OK(cuMemFree(a));
  agree(CONTEXT);
}

static void small_allocations_share_blocks(void) {
  CUdeviceptr first[4096], more;
  for (int i = 0; i < 4096; i++) OK(cuMemAlloc(&first[i], 500));
  agree(CONTEXT + 2 * MIB);
  CHECK(first[1] % 512 == 0 && first[1] - first[0] == 512);
  OK(cuMemAlloc(&more, 1));
  agree(CONTEXT + 4 * MIB);
  OK(cuMemFree(more));
  agree(CONTEXT + 2 * MIB);
  for (int i = 0; i < 4096; i++) OK(cuMemFree(first[i]));
  agree(CONTEXT);
}

static void a_full_card_refuses_and_lives_on(void) {
  CUdeviceptr most, one = 0;
  OK(cuMemAlloc(&most, CAPACITY - CONTEXT));
  agree(CAPACITY);
  EQUAL(cuMemAlloc(&one, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(cuMemAllocManaged(&one, 2 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(one, 0);
  agree(CAPACITY);
  OK(cuMemFree(most));
  EQUAL(cuMemAlloc(&most, CAPACITY - CONTEXT + 1), CUDA_ERROR_OUT_OF_MEMORY);
  agree(CONTEXT);
}

static void other_families_count_too(void) {
  CUdeviceptr managed, pitched;
  CUarray array;
  size_t pitch;
  CUDA_ARRAY3D_DESCRIPTOR box = {.Width = 256, .Height = 256, .Depth = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  OK(cuMemAllocManaged(&managed, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
  agree(CONTEXT + 10 * MIB);
  OK(cuMemAllocPitch(&pitched, &pitch, 1000, 4096, 4));
  EQUAL(pitch, 1024);
  agree(CONTEXT + 14 * MIB);
  OK(cuArray3DCreate(&array, &box));
  agree(CONTEXT + 78 * MIB);
  OK(cuArrayDestroy(array));
  OK(cuMemFree(pitched));
  OK(cuMemFree(managed));
  agree(CONTEXT);
}

static void bad_requests_change_nothing(void) {
  CUdeviceptr pointer;
  EQUAL(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuMemAlloc(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuMemFree(12345), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAlloc(&pointer, 4 * MIB));
  EQUAL(cuMemFree(pointer + 512), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(pointer));
  EQUAL(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(0));
  agree(CONTEXT);
}

static void address_ranges_are_known(void) {
  CUdeviceptr pointer, base;
  size_t size;
  OK(cuMemAlloc(&pointer, 5 * MIB));
  OK(cuMemGetAddressRange(&base, &size, pointer + 4 * MIB));
  EQUAL(base, pointer);
  EQUAL(size, 5 * MIB);
  EQUAL(cuMemGetAddressRange(&base, &size, pointer + 5 * MIB), CUDA_ERROR_NOT_FOUND);
  OK(cuMemFree(pointer));
}

static void a_context_takes_its_memory_with_it(void) {
  CUcontext second;
  CUdeviceptr pointer;
  OK(cuCtxCreate(&second, 0, 0));
  agree(CONTEXT); /* once per process and card */
  OK(cuMemAlloc(&pointer, GIB));
  agree(CONTEXT + GIB);
  OK(cuCtxDestroy(second));
  agree(CONTEXT);
  OK(cuDevicePrimaryCtxRelease(0));
  EQUAL(node_used(0), 0);
}

int main(void) {
  make_node("--cards h100,t4");
  EQUAL(nvmlInit(), NVML_SUCCESS);
  use_device(0);
  agree(CONTEXT);
  large_allocations_round_to_two_mebibytes();
  small_allocations_share_blocks();
  a_full_card_refuses_and_lives_on();
  other_families_count_too();
  bad_requests_change_nothing();
  address_ranges_are_known();
  EQUAL(node_used(1), 0); /* the other card saw nothing of all this */
  a_context_takes_its_memory_with_it();
  return 0;
}
