/* Order and time of work in streams, exact because time is virtual. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "tessera_sim.h"

static CUfunction kernel;

static CUevent events[64]; /* all that the tests made, destroyed at the end */
static int event_count;

static CUevent event(void) {
  CHECK(event_count < 64);
  OK(cuEventCreate(&events[event_count], 0));
  return events[event_count++];
}

static CUstream stream(unsigned flags) {
  CUstream made;
  OK(cuStreamCreate(&made, flags));
  return made;
}

/* Microseconds between two events, as far as a float in milliseconds can tell. */
static double between(CUevent a, CUevent b) {
  float ms;
  OK(cuEventElapsedTime(&ms, a, b));
  return ms * 1000.0;
}

static void close_to(double value, double wanted, double tolerance) {
  if (fabs(value - wanted) <= tolerance) return;
  fprintf(stderr, "%.3f us is not %.3f +- %.3f us\n", value, wanted, tolerance);
  exit(1);
}

static uint64_t now(void) {
  uint64_t ns;
  EQUAL(tesseraSimNow(&ns), 0);
  return ns;
}

static void elapsed_time_is_the_cost_of_the_kernels(void) {
  CUevent a = event(), b = event();
  CUstream s = stream(CU_STREAM_NON_BLOCKING);
  launch_busy(kernel, 100 * US, s); /* the queue is never empty between the events */
  OK(cuEventRecord(a, s));
  for (int i = 0; i < 10; i++) launch_busy(kernel, 250 * US, s);
  OK(cuEventRecord(b, s));
  EQUAL(cuEventQuery(b), CUDA_ERROR_NOT_READY);
  EQUAL(cuEventElapsedTime(&(float){0}, a, b), CUDA_ERROR_NOT_READY);
  OK(cuEventSynchronize(b));
  close_to(between(a, b), 2500, 0.3);
  OK(cuStreamDestroy(s));
}

static void launches_do_not_wait_and_synchronising_does(void) {
  uint64_t begin = now(), launched;
  for (int i = 0; i < 100; i++) launch_busy(kernel, 1 * MS, NULL);
  launched = now() - begin;
  EQUAL(launched, 100 * 3 * US);
  EQUAL(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  OK(cuCtxSynchronize());
  CHECK(now() - begin >= 100 * MS && now() - begin < 100 * MS + 10 * US);
  OK(cuStreamQuery(NULL));
}

static void a_full_queue_blocks_the_launch(void) {
  CUstream s = stream(CU_STREAM_NON_BLOCKING);
  uint64_t begin = now();
  for (int i = 0; i < 1025; i++) launch_busy(kernel, 1 * MS, s);
  CHECK(now() - begin >= 1 * MS && now() - begin < 6 * MS);
  OK(cuStreamSynchronize(s));
  OK(cuStreamDestroy(s));
}

static void a_stream_waits_for_an_event_of_another(void) {
  CUstream s = stream(CU_STREAM_NON_BLOCKING), t = stream(CU_STREAM_NON_BLOCKING);
  CUevent first = event(), second = event(), third = event();
  OK(cuEventRecord(first, t));
  launch_busy(kernel, 5 * MS, s);
  OK(cuEventRecord(second, s));
  OK(cuStreamWaitEvent(t, second, 0));
  launch_busy(kernel, 1 * MS, t);
  OK(cuEventRecord(third, t));
  OK(cuStreamSynchronize(t));
  close_to(between(second, third), 1000, 1);
  CHECK(between(first, third) >= 6000);
  OK(cuStreamDestroy(s));
  OK(cuStreamDestroy(t));
}

static void the_default_stream_stands_between(void) {
  CUstream blocking = stream(CU_STREAM_DEFAULT), free_stream = stream(CU_STREAM_NON_BLOCKING);
  CUevent in_blocking = event(), in_default = event(), after = event(), beside = event();
  launch_busy(kernel, 4 * MS, blocking);
  OK(cuEventRecord(in_blocking, blocking));
  launch_busy(kernel, 2 * MS, NULL);
  OK(cuEventRecord(in_default, NULL));
  launch_busy(kernel, 1 * MS, blocking);
  OK(cuEventRecord(after, blocking));
  OK(cuMemsetD8Async(0, 0, 0, free_stream)); /* nothing to do: allowed */
  OK(cuEventRecord(beside, free_stream));
  OK(cuCtxSynchronize());
  close_to(between(in_blocking, in_default), 2000, 1);
  close_to(between(in_default, after), 1000, 1);
  CHECK(between(beside, in_default) > 0); /* a non-blocking stream did not wait */
  OK(cuStreamDestroy(blocking));
  OK(cuStreamDestroy(free_stream));
}

static void priority_decides_what_comes_next(void) {
  CUstream low, high;
  CUevent low_done = event(), high_done = event();
  OK(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
  OK(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5));
  for (int i = 0; i < 10; i++) launch_busy(kernel, 1 * MS, low);
  OK(cuEventRecord(low_done, low));
  launch_busy(kernel, 1 * MS, high);
  OK(cuEventRecord(high_done, high));
  OK(cuCtxSynchronize());
  close_to(between(high_done, low_done), 9000, 100); /* it waits for the one kernel that runs, not for the nine behind */
  OK(cuStreamDestroy(low));
  OK(cuStreamDestroy(high));
}

static void copies_run_beside_kernels(void) {
  CUstream s = stream(CU_STREAM_NON_BLOCKING), t = stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr device;
  void *host;
  uint64_t begin = now();
  OK(cuMemAlloc(&device, 64 * MIB));
  OK(cuMemHostAlloc(&host, 64 * MIB, 0));
  launch_busy(kernel, 20 * MS, s);
  OK(cuMemcpyHtoDAsync(device, host, 64 * MIB, t)); /* 64 MiB over PCIe 5 x16: 1.33 ms */
  OK(cuStreamSynchronize(t));
  CHECK(now() - begin > 1 * MS && now() - begin < 3 * MS);
  OK(cuStreamSynchronize(s));
  OK(cuMemFreeHost(host));
  OK(cuMemFree(device));
  OK(cuStreamDestroy(s));
  OK(cuStreamDestroy(t));
}

static void costs_can_be_registered(void) {
  static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry my_kernel_f32()\n{ ret; }\n";
  CUmodule module;
  CUfunction mine;
  CUevent a = event(), b = event();
  OK(cuModuleLoadData(&module, ptx));
  OK(cuModuleGetFunction(&mine, module, "my_kernel_f32"));
  EQUAL(tool("kernel %s 'my_kernel*' 7000000", node_path()), 0);
  OK(cuEventRecord(a, NULL));
  OK(cuLaunchKernel(mine, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  OK(cuEventRecord(b, NULL));
  OK(cuEventSynchronize(b));
  close_to(between(a, b), 7003, 4); /* and the time between record and launch */
  OK(cuModuleUnload(module));
}

static void large_grids_take_waves(void) {
  uint64_t begin = now(), zero = 0;
  static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry plain()\n{ ret; }\n";
  CUmodule module;
  CUfunction plain;
  (void)zero;
  OK(cuModuleLoadData(&module, ptx));
  OK(cuModuleGetFunction(&plain, module, "plain"));
  OK(cuLaunchKernel(plain, 132 * 2 * 10, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL)); /* exactly ten waves */
  OK(cuCtxSynchronize());
  EQUAL(now() - begin, 3 * US + 10 * 5 * US);
}

static void bad_launches_are_refused(void) {
  uint64_t ns = 1;
  void *params[] = {&ns};
  CUstream gone = stream(CU_STREAM_DEFAULT);
  OK(cuStreamDestroy(gone));
  EQUAL(cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 49 * KIB, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, gone, params, NULL), CUDA_ERROR_INVALID_HANDLE);
  EQUAL(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static atomic_bool begun, over;

static void *launches_until_told(void *context) {
  OK(cuCtxSetCurrent(context));
  while (!over) {
    launch_busy(kernel, 1 * MS, NULL);
    begun = true;
  }
  OK(tesseraSimUnregisterThread());
  return NULL;
}

/* Another thread never lets the context become empty; each wait is over when what it found has ended. */
static void a_wait_is_for_what_came_before_it(void) {
  pthread_t other;
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  EQUAL(pthread_create(&other, NULL, launches_until_told, context), 0);
  OK(tesseraSimUnregisterThread()); /* waiting for threads is no wait of the model */
  while (!begun) sched_yield();
  for (int i = 0; i < 20; i++) OK(cuCtxSynchronize());
  over = true;
  OK(tesseraSimUnregisterThread());
  EQUAL(pthread_join(other, NULL), 0);
  OK(cuCtxSynchronize());
}

int main(void) {
  make_node("--cards h100 --time virtual");
  use_device(0);
  kernel = busy_kernel();
  elapsed_time_is_the_cost_of_the_kernels();
  launches_do_not_wait_and_synchronising_does();
  a_full_queue_blocks_the_launch();
  a_stream_waits_for_an_event_of_another();
  the_default_stream_stands_between();
  priority_decides_what_comes_next();
  copies_run_beside_kernels();
  costs_can_be_registered();
  large_grids_take_waves();
  bad_launches_are_refused();
  a_wait_is_for_what_came_before_it();
  while (event_count > 0) OK(cuEventDestroy(events[--event_count]));
  return 0;
}
