/* Device memory really holds what is put into it, and holds no RAM for what is not. */
#include <string.h>
#include <unistd.h>

#include "check.h"

static uint64_t resident_bytes(void) {
  unsigned long total, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%lu %lu", &total, &resident) == 2);
  fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void copies_move_bytes(void) {
  unsigned char out[3000], in[3000];
  CUdeviceptr a, b;
  for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)(i * 7);
  OK(cuMemAlloc(&a, sizeof out));
  OK(cuMemAlloc(&b, 4 * MIB));
  OK(cuMemcpyHtoD(a, out, sizeof out));
  OK(cuMemcpyDtoD(b + 100, a, sizeof out));
  OK(cuMemcpyDtoH(in, b + 100, sizeof in));
  CHECK(memcmp(in, out, sizeof in) == 0);
  memset(in, 0, sizeof in);
  OK(cuMemcpy((CUdeviceptr)(uintptr_t)in, a, sizeof in));
  CHECK(memcmp(in, out, sizeof in) == 0);
  EQUAL(cuMemcpyHtoD(b + 4 * MIB - 1, out, 2), CUDA_ERROR_INVALID_VALUE); /* over the end */
  OK(cuMemFree(a));
  EQUAL(cuMemcpyDtoH(in, a, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(b));
}

static void fills_write_patterns(void) {
  uint32_t words[64];
  CUdeviceptr p;
  OK(cuMemAlloc(&p, sizeof words));
  OK(cuMemsetD32(p, 0x01020304, 64));
  OK(cuMemsetD16(p, 0xabcd, 2));
  OK(cuMemsetD8(p + 8, 0x7f, 1));
  OK(cuMemcpyDtoH(words, p, sizeof words));
  EQUAL(words[0], 0xabcdabcd);
  EQUAL(words[2], 0x0102037f);
  EQUAL(words[63], 0x01020304);
  OK(cuMemsetD2D8(p, 16, 0, 4, 16));
  OK(cuMemcpyDtoH(words, p, sizeof words));
  EQUAL(words[4], 0);
  EQUAL(words[5], 0x01020304);
  EQUAL(cuMemsetD32(p + 1, 0, 1), CUDA_ERROR_INVALID_VALUE); /* not aligned */
  OK(cuMemFree(p));
}

static void boxes_go_through_arrays(void) {
  uint16_t host[6][8], back[6][8] = {{0}};
  CUDA_ARRAY_DESCRIPTOR d = {.Width = 8, .Height = 6, .Format = CU_AD_FORMAT_UNSIGNED_INT16, .NumChannels = 1};
  CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 16,
                      .dstMemoryType = CU_MEMORYTYPE_ARRAY, .WidthInBytes = 16, .Height = 6};
  CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcXInBytes = 4, .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = back, .dstPitch = 16, .WidthInBytes = 8, .Height = 3};
  CUarray array;
  for (int y = 0; y < 6; y++) for (int x = 0; x < 8; x++) host[y][x] = (uint16_t)(10 * y + x);
  OK(cuArrayCreate(&array, &d));
  in.dstArray = out.srcArray = array;
  OK(cuMemcpy2D(&in));
  OK(cuMemcpy2D(&out));
  EQUAL(back[0][0], 12);
  EQUAL(back[2][3], 35);
  EQUAL(back[3][0], 0);
  in.srcY = 1;
  in.dstY = 1; /* one row too many */
  EQUAL(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
  OK(cuArrayDestroy(array));
  EQUAL(cuMemcpy2D(&out), CUDA_ERROR_INVALID_HANDLE);
}

static void large_memory_costs_no_ram(void) {
  uint64_t before = resident_bytes();
  CUdeviceptr a, b;
  unsigned char byte = 1;
  OK(cuMemAlloc(&a, 8 * GIB));
  OK(cuMemAlloc(&b, 8 * GIB));
  OK(cuMemsetD8(a, 0, 8 * GIB));
  OK(cuCtxSynchronize());
  CHECK(resident_bytes() - before < 16 * MIB);
  OK(cuMemcpyHtoD(a + 5 * GIB, &byte, 1));
  OK(cuMemcpyDtoD(b, a, GIB));
  OK(cuCtxSynchronize());
  CHECK(resident_bytes() - before < 32 * MIB);
  OK(cuMemsetD8(a, 0, 8 * GIB));
  OK(cuMemcpyDtoH(&byte, a + 5 * GIB, 1));
  EQUAL(byte, 0);
  OK(cuMemFree(a));
  OK(cuMemFree(b));
}

int main(void) {
  make_node("--cards h100 --time virtual");
  use_device(0);
  copies_move_bytes();
  fills_write_patterns();
  boxes_go_through_arrays();
  large_memory_costs_no_ram();
  return 0;
}
