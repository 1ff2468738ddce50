/* Faults on request: calls that fail, cards that fall ill or off the bus. */
#include <string.h>

#include "check.h"
#include "nvml.h"

static void a_call_fails_as_often_as_asked(void) {
  CUdeviceptr p;
  EQUAL(tool("fault %s fail cuMemAlloc_v2 2 --skip 1 --times 2", node_path()), 0);
  OK(cuMemAlloc(&p, 1));
  OK(cuMemFree(p));
  EQUAL(cuMemAlloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(cuMemAlloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&p, 1));
  OK(cuMemFree(p));
}

static void patterns_and_clearing(void) {
  CUstream s;
  EQUAL(tool("fault %s fail 'cuStreamCreate*' 999 --times 1000", node_path()), 0);
  EQUAL(cuStreamCreate(&s, 0), CUDA_ERROR_UNKNOWN);
  EQUAL(tool("fault %s clear", node_path()), 0);
  OK(cuStreamCreate(&s, 0));
  OK(cuStreamDestroy(s));
}

static void health_checks_hear_of_it(void) {
  nvmlEventSet_t set;
  nvmlEventData_t data;
  nvmlDevice_t device;
  unsigned long long errors;
  EQUAL(nvmlDeviceGetHandleByIndex(1, &device), NVML_SUCCESS);
  EQUAL(nvmlEventSetCreate(&set), NVML_SUCCESS);
  EQUAL(nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
  EQUAL(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
  EQUAL(tool("fault %s card 1 unhealthy --xid 63", node_path()), 0);
  EQUAL(nvmlEventSetWait_v2(set, &data, 10000), NVML_SUCCESS);
  EQUAL(data.eventData, 63);
  CHECK(data.device == device);
  EQUAL(nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors), NVML_SUCCESS);
  EQUAL(errors, 1);
  EQUAL(nvmlDeviceRegisterEvents(device, nvmlEventTypeDoubleBitEccError, set), NVML_SUCCESS);
  EQUAL(tool("fault %s card 1 unhealthy", node_path()), 0);
  EQUAL(nvmlEventSetWait_v2(set, &data, 10000), NVML_SUCCESS);
  EQUAL(data.eventType, nvmlEventTypeXidCriticalError);
  EQUAL(data.eventData, 48);
  EQUAL(nvmlEventSetWait_v2(set, &data, 10000), NVML_SUCCESS);
  EQUAL(data.eventType, nvmlEventTypeDoubleBitEccError);
  EQUAL(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
  EQUAL(nvmlEventSetFree(set), NVML_SUCCESS);
}

static struct gate begun;

static void wait_for_a_lost_card(int index) {
  CUfunction kernel;
  (void)index;
  use_device(0);
  kernel = busy_kernel();
  launch_busy(kernel, 3600 * 1000 * MS, NULL);
  gate_open(&begun, 1);
  EQUAL(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void a_lost_card_lets_nobody_hang(void) {
  nvmlDevice_t device;
  unsigned watts;
  CUdeviceptr p;
  EQUAL(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
  EQUAL(tool("fault %s card 0 lost", node_path()), 0);
  EQUAL(cuMemAlloc(&p, 1), CUDA_ERROR_DEVICE_UNAVAILABLE);
  EQUAL(nvmlDeviceGetPowerUsage(device, &watts), NVML_ERROR_GPU_IS_LOST);
  EQUAL(tool("fault %s card 0 healthy", node_path()), 0);
  OK(cuMemAlloc(&p, 1));
  OK(cuMemFree(p));
}

static uint64_t took(void) {
  uint64_t begin = node_now();
  OK(cuCtxGetDevice(&(CUdevice){0}));
  return node_now() - begin;
}

static void a_call_waits_as_long_as_asked(void) {
  EQUAL(tool("fault %s slow cuCtxGetDevice 300 --times 2", node_path()), 0);
  CHECK(took() >= 300 * MS);
  CHECK(took() >= 300 * MS);
  CHECK(took() < 300 * MS);
}

static void allocate_twice(int index) {
  CUdeviceptr p;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&p, 64 * MIB));
  OK(cuMemAlloc(&p, 64 * MIB));
}

/* Before its second allocation, and after it: then the bytes were on the card. */
static void a_process_dies_at_the_call_that_is_named(void) {
  for (int after = 0; after < 2; after++) {
    EQUAL(tool("fault %s kill cuMemAlloc_v2 --skip 1 --after %d", node_path(), after), 0);
    EQUAL(end_child(begin_child(allocate_twice, 0)), 128 + 9);
    EQUAL(node_used(0), 0);
  }
  EQUAL(tool("fault %s fail cuInit 1 --after 1", node_path()), 2);
}

static void log_some_calls(int index) {
  CUdeviceptr p;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&p, 4096));
  OK(cuMemsetD8(p, 7, 4096));
  OK(cuMemFree(p));
}

static void the_log_tells_arguments(void) {
  char path[256], line[256];
  unsigned long long out, bytes;
  int found = 0;
  FILE *log;
  snprintf(path, sizeof path, "%s.log", node_path());
  setenv("TESSERA_SIM_LOG", path, 1);
  EQUAL(end_child(begin_child(log_some_calls, 0)), 0);
  unsetenv("TESSERA_SIM_LOG");
  log = fopen(path, "r");
  CHECK(log);
  while (fgets(line, sizeof line, log)) {
    if (sscanf(line, "cuMemAlloc_v2 0 0x%llx %llu", &out, &bytes) == 2) found += bytes == 4096;
    if (sscanf(line, "cuMemsetD8_v2 0 0x%llx 7 %llu", &out, &bytes) == 2) found += bytes == 4096;
  }
  fclose(log);
  remove(path);
  EQUAL(found, 2);
}

int main(void) {
  pid_t child;
  make_node("--cards h100,l40s");
  gate_make(&begun);
  child = begin_child(wait_for_a_lost_card, 0);
  gate_pass(&begun);
  EQUAL(tool("fault %s card 0 lost", node_path()), 0);
  EQUAL(end_child(child), 0);
  EQUAL(tool("fault %s clear", node_path()), 0);
  a_process_dies_at_the_call_that_is_named();
  the_log_tells_arguments();
  EQUAL(nvmlInit(), NVML_SUCCESS);
  use_device(0);
  a_call_waits_as_long_as_asked();
  a_call_fails_as_often_as_asked();
  patterns_and_clearing();
  health_checks_hear_of_it();
  a_lost_card_lets_nobody_hang();
  EQUAL(tool("fault %s fail cuInit 0", node_path()), 2);
  EQUAL(tool("fault %s card 9 lost", node_path()), 1);
  return 0;
}
