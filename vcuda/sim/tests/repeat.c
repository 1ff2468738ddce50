/* The same seed gives the same run, to the nanosecond, with processes and threads racing for real. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "tessera_sim.h"

enum { PROCESSES = 3, STEPS = 200 };

/* When each step of each process was over: shared, so that the children can write it. */
static uint64_t (*trace)[PROCESSES][STEPS];
static int run;

static void process(int index) {
  char rank[8];
  CUfunction kernel;
  snprintf(rank, sizeof rank, "%d", index);
  setenv("TESSERA_SIM_RANK", rank, 1);
  use_device(0);
  kernel = busy_kernel();
  EQUAL(tesseraSimRegisterThread(), 0);
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i <= index; i++) launch_busy(kernel, (unsigned)(step % 7 * 100 + 50) * US, NULL);
    OK(cuCtxSynchronize());
    EQUAL(tesseraSimNow(&trace[run][index][step]), 0);
  }
}

static void run_once(const char *options) {
  pid_t children[PROCESSES];
  make_node(options);
  for (int i = 0; i < PROCESSES; i++) children[i] = begin_child(process, i);
  for (int i = 0; i < PROCESSES; i++) EQUAL(end_child(children[i]), 0);
  run++;
}

int main(void) {
  trace = mmap(NULL, 3 * sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(trace != MAP_FAILED);
  run_once("--cards h100 --time virtual --hold 3 --jitter-permille 50 --seed 7");
  run_once("--cards h100 --time virtual --hold 3 --jitter-permille 50 --seed 7");
  run_once("--cards h100 --time virtual --hold 3 --jitter-permille 50 --seed 8");
  CHECK(memcmp(trace[0], trace[1], sizeof *trace) == 0);
  CHECK(memcmp(trace[0], trace[2], sizeof *trace) != 0);
  return 0;
}
