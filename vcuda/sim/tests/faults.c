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

int main(void) {
  pid_t child;
  make_node("--cards h100,l40s");
  gate_make(&begun);
  child = begin_child(wait_for_a_lost_card, 0);
  gate_pass(&begun);
  EQUAL(tool("fault %s card 0 lost", node_path()), 0);
  EQUAL(end_child(child), 0);
  EQUAL(tool("fault %s clear", node_path()), 0);
  EQUAL(nvmlInit(), NVML_SUCCESS);
  use_device(0);
  a_call_fails_as_often_as_asked();
  patterns_and_clearing();
  health_checks_hear_of_it();
  a_lost_card_lets_nobody_hang();
  EQUAL(tool("fault %s fail cuInit 0", node_path()), 2);
  EQUAL(tool("fault %s card 9 lost", node_path()), 1);
  return 0;
}
