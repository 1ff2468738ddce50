/* What contexts take beside the memory that is asked for: the context itself, code, and buffers behind raised limits. */
#include "check.h"

#define CONTEXT (256 * MIB)

static uint64_t used(void) { return node_used(0) - CONTEXT; }

static void modules_take_pages(void) {
  static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n";
  CUmodule first, second;
  EQUAL(used(), 0);
  OK(cuModuleLoadData(&first, ptx));
  EQUAL(used(), 2 * MIB);
  OK(cuModuleLoadData(&second, ptx));
  EQUAL(used(), 2 * MIB); /* they share pages */
  OK(cuModuleUnload(first));
  OK(cuModuleUnload(second));
  EQUAL(used(), 0);
}

static void raised_limits_take_what_they_promise(void) {
  size_t heap, fifo, stack;
  CUdeviceptr all;
  OK(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
  OK(cuCtxGetLimit(&fifo, CU_LIMIT_PRINTF_FIFO_SIZE));
  OK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
  OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap + GIB));
  OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, fifo + 100));
  EQUAL(used(), GIB + 2 * MIB);
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack + 1024));
  EQUAL(used(), GIB + 2 * MIB + 132 * 2048 * 1024ull); /* a stack for each thread that the card can hold */
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack));
  OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, fifo / 2));
  OK(cuMemAlloc(&all, 77 * GIB));
  EQUAL(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap + 4 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(all));
  EQUAL(used(), GIB);
}

int main(void) {
  CUcontext extra;
  make_node("--cards h100");
  use_device(0);
  modules_take_pages();
  raised_limits_take_what_they_promise();
  OK(cuCtxCreate(&extra, 0, 0));
  OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * GIB + 8388608));
  EQUAL(used(), 3 * GIB);
  OK(cuCtxDestroy(extra));
  EQUAL(used(), GIB);
  return 0;
}
