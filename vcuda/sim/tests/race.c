/* Many processes and threads race for the last bytes: the card never holds one more than it has, and nothing gets lost. */
#include <pthread.h>
#include <signal.h>

#include "check.h"

enum { PROCESSES = 4, THREADS = 16, ROUNDS = 60 };
#define CAPACITY ((15360ull - 439) * MIB)

static struct gate ready, go;
static CUcontext ctx;
static pthread_barrier_t all_have_tried;

static void *race(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  CUdeviceptr held[8] = {0};
  OK(cuCtxSetCurrent(ctx));
  for (int i = 0; i < ROUNDS; i++) {
    int slot = (int)(rand_r(&seed) % 8);
    size_t bytes = ((size_t)rand_r(&seed) % 64 + 1) * 5 * MIB;
    CUresult result;
    if (held[slot]) OK(cuMemFree(held[slot]));
    held[slot] = 0;
    result = cuMemAlloc(&held[slot], bytes);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
  }
  pthread_barrier_wait(&all_have_tried); /* so that together they want more than there is */
  for (int slot = 0; slot < 8; slot++) {
    if (held[slot]) OK(cuMemFree(held[slot]));
  }
  return NULL;
}

static void process(int index) {
  pthread_t threads[THREADS];
  ctx = use_device(0);
  gate_open(&ready, 1);
  gate_pass(&go);
  EQUAL(pthread_barrier_init(&all_have_tried, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; i++) EQUAL(pthread_create(&threads[i], NULL, race, (void *)(uintptr_t)(index * 1000 + i)), 0);
  for (int i = 0; i < THREADS; i++) EQUAL(pthread_join(threads[i], NULL), 0);
}

/* One primary context, which threads begin and end at once: whoever retains it gets one that is whole, and nothing stays behind. */
static void *come_and_go(void *argument) {
  for (int i = 0; i < 20000; i++) {
    CUcontext mine;
    OK(cuDevicePrimaryCtxRetain(&mine, 0));
    if (argument) OK(cuDevicePrimaryCtxReset(0));
    CUresult result = cuDevicePrimaryCtxRelease(0);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_CONTEXT); /* somebody may have reset it */
  }
  return NULL;
}

static void come_and_go_together(int index) {
  pthread_t threads[8];
  (void)index;
  OK(cuInit(0));
  for (uintptr_t i = 0; i < 8; i++) EQUAL(pthread_create(&threads[i], NULL, come_and_go, (void *)(i % 2)), 0);
  for (int i = 0; i < 8; i++) EQUAL(pthread_join(threads[i], NULL), 0);
  OK(cuDevicePrimaryCtxReset(0));
  EQUAL(node_used(0), 0);
}

int main(void) {
  pid_t children[PROCESSES];
  make_node("--cards t4");
  gate_make(&ready);
  gate_make(&go);
  for (int i = 0; i < PROCESSES; i++) children[i] = begin_child(process, i);
  for (int i = 0; i < PROCESSES; i++) gate_pass(&ready); /* all have their context before the card is full */
  gate_open(&go, PROCESSES);
  for (int i = 0; i < PROCESSES; i++) EQUAL(end_child(children[i]), 0);
  EQUAL(end_child(begin_child(come_and_go_together, 0)), 0);
  EQUAL(node_used(0), 0);
  CHECK(node_peak(0) <= CAPACITY);
  CHECK(node_peak(0) > CAPACITY - 400 * MIB); /* the race did reach the end of the card */
  return 0;
}
