/* The runtime linked into the program, as nvcc does by default: no libcudart.so that anybody could put something before. */
#include <stdio.h>

int cudaGetDeviceCount(int *count);
int cudaMemGetInfo(size_t *free, size_t *total);
int cudaMalloc(void **pointer, size_t bytes);

int main(void) {
  int count = 0;
  size_t free = 0, total = 0;
  void *pointer = NULL;
  if (cudaGetDeviceCount(&count) != 0 || cudaMemGetInfo(&free, &total) != 0 || cudaMalloc(&pointer, 1 << 20) != 0) return 1;
  printf("{\"cards\": %d, \"total\": %zu, \"refused\": %d}\n", count, total, cudaMalloc(&pointer, total));
  return 0;
}
