/* Memory of a graphics API: it lives as long as its maker's descriptor, what was imported, and what is mapped of it. */
#include <unistd.h>

#include "check.h"
#include "tessera_sim.h"

#define CONTEXT (256 * MIB)

static uint64_t used(void) { return node_used(0) - CONTEXT; }

static CUexternalMemory import(int fd, uint64_t bytes) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = fd}, .size = bytes};
  CUexternalMemory memory;
  OK(cuImportExternalMemory(&memory, &d));
  return memory;
}

static void buffers_keep_the_memory(void) {
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {.size = 64 * MIB}, part = {.offset = 4096, .size = MIB}, beyond = {.offset = 64 * MIB, .size = 1};
  CUexternalMemory memory;
  CUdeviceptr a, b;
  uint32_t word = 0;
  int fd;
  EQUAL(tesseraSimGraphicsMemory(0, 64 * MIB, &fd), 0);
  EQUAL(used(), 64 * MIB);
  memory = import(fd, 64 * MIB);
  EQUAL(close(fd), -1); /* it is the driver's now */
  EQUAL(used(), 64 * MIB);
  OK(cuExternalMemoryGetMappedBuffer(&a, memory, &whole));
  OK(cuExternalMemoryGetMappedBuffer(&b, memory, &part));
  EQUAL(cuExternalMemoryGetMappedBuffer(&b, memory, &beyond), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemsetD32(a + 4096, 0x1234, 1));
  OK(cuMemcpyDtoH(&word, b, 4));
  EQUAL(word, 0x1234);
  OK(cuDestroyExternalMemory(memory));
  EQUAL(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  OK(cuMemFree(a));
  EQUAL(used(), 64 * MIB);
  OK(cuMemFree(b));
  EQUAL(used(), 0);
}

static void so_do_arrays_and_the_maker(void) {
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC d = {
      .arrayDesc = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, .numLevels = 3};
  CUexternalMemory memory;
  CUmipmappedArray mipmap;
  int fd, kept;
  EQUAL(tesseraSimGraphicsMemory(0, 6 * MIB, &fd), 0);
  kept = dup(fd);
  memory = import(fd, 6 * MIB);
  OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &d));
  OK(cuDestroyExternalMemory(memory));
  OK(cuMipmappedArrayDestroy(mipmap));
  EQUAL(used(), 6 * MIB);
  EQUAL(close(kept), 0);
  EQUAL(used(), 0);
}

static void only_graphics_memory_is_imported(void) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = 0}, .size = MIB};
  CUexternalMemory memory;
  EQUAL(cuImportExternalMemory(&memory, &d), CUDA_ERROR_INVALID_HANDLE);
  d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
  EQUAL(cuImportExternalMemory(&memory, &d), CUDA_ERROR_NOT_SUPPORTED);
  EQUAL(used(), 0);
}

int main(void) {
  make_node("--cards h100");
  use_device(0);
  buffers_keep_the_memory();
  so_do_arrays_and_the_maker();
  only_graphics_memory_is_imported();
  return 0;
}
