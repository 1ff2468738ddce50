/* Process ids are those of whoever asks: a driver outside all containers sees a program inside one by its own number. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "nvml.h"

enum { NO_RIGHT = 77 }; /* ctest counts the test as skipped */

static struct gate ready;
static int told[2];

static unsigned listed(unsigned *pids, unsigned room) {
  nvmlProcessInfo_t infos[8];
  nvmlDevice_t device;
  unsigned count = 8;
  EQUAL(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetComputeRunningProcesses(device, &count, infos), NVML_SUCCESS);
  for (unsigned i = 0; i < count && i < room; i++) pids[i] = infos[i].pid;
  return count;
}

/* The first process of a namespace of its own, as a container's is. */
static void contained(int index) {
  CUfunction kernel;
  unsigned pids[8];
  EQUAL(getpid(), 1);
  use_device(0);
  kernel = busy_kernel();
  EQUAL(nvmlInit(), NVML_SUCCESS); /* opens the node once more, and another time after a shutdown */
  EQUAL(nvmlShutdown(), NVML_SUCCESS);
  EQUAL(nvmlInit(), NVML_SUCCESS);
  EQUAL(listed(pids, 8), index + 1);
  EQUAL(pids[index], 1);
  if (index) EQUAL(pids[0], 0); /* a neighbour in another namespace has no number here */
  gate_open(&ready, 1);
  for (;;) {
    launch_busy(kernel, 100 * MS, NULL);
    OK(cuCtxSynchronize());
  }
}

static void begin_namespace(int index) {
  pid_t inside;
  CHECK(unshare(CLONE_NEWPID) == 0);
  inside = begin_child(contained, index);
  EQUAL(write(told[1], &inside, sizeof inside), sizeof inside);
  _exit(end_child(inside)); /* the leak checker cannot work in a process whose children live elsewhere */
}

static pid_t begin_contained(int index, pid_t *outer) {
  pid_t inside;
  *outer = begin_child(begin_namespace, index);
  EQUAL(read(told[0], &inside, sizeof inside), sizeof inside);
  gate_pass(&ready);
  return inside;
}

static unsigned busy_pid(void) {
  nvmlProcessUtilizationSample_t samples[64];
  nvmlDevice_t device;
  unsigned count = 64;
  EQUAL(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
  for (int i = 0; i < 600; i++) {
    count = 64;
    if (nvmlDeviceGetProcessUtilization(device, samples, &count, 0) == NVML_SUCCESS) return samples[0].pid;
    usleep(100000); /* until the first window in which somebody was busy has ended */
  }
  const bool somebody_was_busy_within_a_minute = false;
  CHECK(somebody_was_busy_within_a_minute);
  return 0;
}

int main(void) {
  pid_t outer[2], inside[2];
  unsigned pids[8];
  if (geteuid() != 0) return NO_RIGHT;
  make_node("--cards h100");
  gate_make(&ready);
  CHECK(pipe(told) == 0);
  EQUAL(nvmlInit(), NVML_SUCCESS);
  inside[0] = begin_contained(0, &outer[0]);
  EQUAL(listed(pids, 8), 1);
  EQUAL(pids[0], inside[0]);
  EQUAL(busy_pid(), inside[0]);
  inside[1] = begin_contained(1, &outer[1]);
  EQUAL(listed(pids, 8), 2);
  EQUAL(pids[0], inside[0]);
  EQUAL(pids[1], inside[1]);
  for (int i = 0; i < 2; i++) {
    kill(inside[i], SIGKILL);
    EQUAL(end_child(outer[i]), 128 + SIGKILL);
  }
  EQUAL(listed(pids, 8), 0);
  return 0;
}
