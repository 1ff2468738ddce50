/* NVML tells the same story as the driver. */
#include "nvml.h"

#include <string.h>
#include <unistd.h>

#include "check.h"
#include "tessera_sim.h"

static nvmlDevice_t device;

static uint64_t now(void) {
  uint64_t ns;
  EQUAL(tesseraSimNow(&ns), 0);
  return ns;
}

static void identities_agree(void) {
  char name[64], uuid[64], expected[64], bus[32];
  CUuuid bytes;
  nvmlPciInfo_t pci;
  nvmlDevice_t same;
  int driver, nvml;
  EQUAL(nvmlDeviceGetName(device, name, sizeof name), NVML_SUCCESS);
  CHECK(strcmp(name, "NVIDIA L40S") == 0);
  OK(cuDeviceGetUuid(&bytes, 0));
  EQUAL(nvmlDeviceGetUUID(device, uuid, sizeof uuid), NVML_SUCCESS);
  strcpy(expected, "GPU-");
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) strcat(expected, "-");
    snprintf(expected + strlen(expected), 3, "%02x", (unsigned char)bytes.bytes[i]);
  }
  CHECK(strcmp(uuid, expected) == 0);
  EQUAL(nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
  CHECK(same == device);
  OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  EQUAL(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
  CHECK(strcmp(pci.busIdLegacy, bus) == 0);
  EQUAL(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same), NVML_SUCCESS);
  CHECK(same == device);
  OK(cuDriverGetVersion(&driver));
  EQUAL(nvmlSystemGetCudaDriverVersion(&nvml), NVML_SUCCESS);
  EQUAL(driver, nvml);
  EQUAL(nvmlDeviceGetName(device, name, 3), NVML_ERROR_INSUFFICIENT_SIZE);
}

static void processes_and_their_bytes(void) {
  nvmlProcessInfo_t info[4];
  unsigned count = 0;
  CUdeviceptr pointer;
  OK(cuMemAlloc(&pointer, 2 * GIB));
  EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
  EQUAL(count, 1);
  EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, info), NVML_SUCCESS);
  EQUAL(info[0].pid, getpid());
  EQUAL(info[0].usedGpuMemory, 2 * GIB + 240 * MIB);
  count = 4;
  EQUAL(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, info), NVML_SUCCESS);
  EQUAL(count, 0);
  OK(cuMemFree(pointer));
}

/* Busy for 40 % of a second, in pieces much shorter than the window. */
static void utilisation_is_the_busy_share(void) {
  CUfunction kernel = busy_kernel();
  nvmlUtilization_t rates;
  nvmlProcessUtilizationSample_t samples[200];
  unsigned count = 200, idle_mw, busy_mw;
  uint64_t begin = now();
  EQUAL(nvmlDeviceGetProcessUtilization(device, NULL, &count, 0), NVML_ERROR_NOT_FOUND);
  EQUAL(nvmlDeviceGetPowerUsage(device, &idle_mw), NVML_SUCCESS);
  for (uint64_t t = begin; t < begin + 1000 * MS; t += 10 * MS) {
    EQUAL(tesseraSimSleepUntil(t), 0);
    launch_busy(kernel, 4 * MS, NULL);
  }
  EQUAL(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
  CHECK(rates.gpu >= 39 && rates.gpu <= 41);
  EQUAL(nvmlDeviceGetPowerUsage(device, &busy_mw), NVML_SUCCESS);
  CHECK(busy_mw > idle_mw);
  count = 200;
  EQUAL(nvmlDeviceGetProcessUtilization(device, samples, &count, 0), NVML_SUCCESS);
  CHECK(count >= 4);
  EQUAL(samples[count - 1].pid, getpid());
  CHECK(samples[count - 1].smUtil >= 39 && samples[count - 1].smUtil <= 41);
  EQUAL(nvmlDeviceGetProcessUtilization(device, samples, &count, samples[count - 1].timeStamp), NVML_ERROR_NOT_FOUND);
  EQUAL(tesseraSimSleepUntil(now() + 1000 * MS), 0);
  EQUAL(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
  EQUAL(rates.gpu, 0);
}

static void it_must_be_initialised(void) {
  unsigned count;
  EQUAL(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  CHECK(strcmp(nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized") == 0);
  EQUAL(nvmlInit_v2(), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EQUAL(count, 1);
  EQUAL(nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_ERROR_INVALID_ARGUMENT);
  EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
}

int main(void) {
  make_node("--cards l40s --time virtual");
  it_must_be_initialised();
  use_device(0);
  identities_agree();
  processes_and_their_bytes();
  utilisation_is_the_busy_share();
  return 0;
}
