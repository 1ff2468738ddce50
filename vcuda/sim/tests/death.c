/* However a process ends, its bytes and its queued work are gone for the next who looks. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "nvml.h"

static struct gate ready, never;

static void hold_memory_and_work(int index) {
  CUdeviceptr pointer;
  CUfunction kernel;
  (void)index;
  use_device(0);
  kernel = busy_kernel();
  OK(cuMemAlloc(&pointer, 10 * GIB));
  for (int i = 0; i < 500; i++) launch_busy(kernel, 1000 * MS, NULL);
  gate_open(&ready, 1);
  gate_pass(&never);
}

static unsigned processes(void) {
  nvmlProcessInfo_t infos[8];
  nvmlDevice_t device;
  unsigned count = 8;
  EQUAL(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetComputeRunningProcesses(device, &count, infos), NVML_SUCCESS);
  return count;
}

static void a_killed_process_gives_everything_back(void) {
  pid_t child = begin_child(hold_memory_and_work, 0);
  size_t available, total;
  CUfunction kernel;
  gate_pass(&ready);
  EQUAL(node_used(0), 10 * GIB + 256 * MIB + MODULE);
  EQUAL(processes(), 1);
  kill(child, SIGKILL);
  EQUAL(end_child(child), 128 + SIGKILL);
  EQUAL(processes(), 0);
  use_device(0);
  OK(cuMemGetInfo(&available, &total));
  EQUAL(total - available, 256 * MIB);
  /* 500 s of its kernels do not stand in our way */
  kernel = busy_kernel();
  launch_busy(kernel, 1 * MS, NULL);
  OK(cuCtxSynchronize());
}

static void work_hard(int index) {
  CUfunction kernel;
  CUdeviceptr pointer;
  CUevent event;
  (void)index;
  use_device(0);
  kernel = busy_kernel();
  gate_open(&ready, 1);
  for (;;) {
    OK(cuMemAlloc(&pointer, 4 * MIB));
    OK(cuEventCreate(&event, 0));
    launch_busy(kernel, 20 * US, NULL);
    OK(cuEventRecord(event, NULL));
    OK(cuEventSynchronize(event));
    OK(cuEventDestroy(event));
    OK(cuMemFree(pointer));
  }
}

/* Killed wherever it happens to be, inside the lock too. */
static void kills_anywhere_leave_the_node_sound(void) {
  unsigned seed = 1;
  for (int round = 0; round < 30; round++) {
    pid_t child = begin_child(work_hard, round);
    gate_pass(&ready);
    usleep((unsigned)(rand_r(&seed) % 3000)); /* the moment of the kill is the point: any will do */
    kill(child, SIGKILL);
    end_child(child);
    EQUAL(node_used(0), 0);
  }
}

int main(void) {
  make_node("--cards h100");
  gate_make(&ready);
  gate_make(&never);
  EQUAL(nvmlInit(), NVML_SUCCESS);
  kills_anywhere_leave_the_node_sound(); /* before we use CUDA ourselves: children of a CUDA process may not */
  a_killed_process_gives_everything_back();
  return 0;
}
