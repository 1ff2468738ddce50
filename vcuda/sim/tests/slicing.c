/* Contexts of different processes share the card by time slices. */
#include <string.h>

#include "check.h"
#include "nvml.h"
#include "tessera_sim.h"

static struct gate done, leave;

/* Keeps the card busy with kernels of this length for 10 s of card time. */
static void keep_busy(int kernel_us) {
  CUfunction kernel;
  uint64_t end, now;
  setenv("TESSERA_SIM_RANK", kernel_us == 100 ? "1" : "2", 1);
  use_device(0);
  kernel = busy_kernel();
  EQUAL(tesseraSimRegisterThread(), 0);
  OK(cuCtxSynchronize()); /* returns when all have registered: the clock is held until then */
  EQUAL(tesseraSimNow(&now), 0);
  end = now + 10000 * MS;
  while (now < end) {
    launch_busy(kernel, (unsigned)kernel_us * US, NULL);
    EQUAL(tesseraSimNow(&now), 0);
  }
  gate_open(&done, 1);
  EQUAL(tesseraSimUnregisterThread(), 0);
  gate_pass(&leave);
}

static double share(pid_t process, pid_t other) {
  double mine = (double)node_busy(0, process), all = mine + (double)node_busy(0, other);
  return mine / all;
}

static void two_busy_processes_get_half_each(int first_us, int second_us) {
  pid_t a, b;
  double of_a;
  make_node("--cards h100 --time virtual --hold 2");
  a = begin_child(keep_busy, first_us);
  b = begin_child(keep_busy, second_us);
  gate_pass(&done);
  gate_pass(&done);
  of_a = share(a, b);
  if (of_a < 0.49 || of_a > 0.51) {
    fprintf(stderr, "kernels of %d and %d us: the first got %.3f of the card\n", first_us, second_us, of_a);
    exit(1);
  }
  gate_open(&leave, 2);
  EQUAL(end_child(a), 0);
  EQUAL(end_child(b), 0);
}

int main(void) {
  gate_make(&done);
  gate_make(&leave);
  two_busy_processes_get_half_each(100, 100);
  two_busy_processes_get_half_each(100, 50000); /* a long kernel is interrupted */
  return 0;
}
