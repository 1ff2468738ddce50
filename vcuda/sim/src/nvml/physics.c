/* Clocks, power, temperature: functions of the busy share of the newest window. Settings that never change. */
#include <stdlib.h>

#include "../util.h"
#include "internal.h"

#define FULL_LOAD 0.85 /* a fully busy card draws about so much of its limit above idle */

static double load(const struct sim_card *card) {
  uint64_t now = look();
  double busy = sim_utilisation(card, now, SIM_NONE) / 100.0;
  looked();
  return busy;
}

static double watts(const struct sim_card *card, double busy) {
  return card->model.power_idle_w + (card->model.power_limit_w - card->model.power_idle_w) * FULL_LOAD * busy;
}

/* CLOCK_GRAPHICS, SM and VIDEO fall when nothing runs; the memory clock stays. */
nvmlReturn_t impl_nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!mhz || type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (type == NVML_CLOCK_MEM) *mhz = card->model.mem_clock_mhz;
  else *mhz = load(card) > 0 ? card->model.sm_clock_mhz : card->model.sm_clock_mhz / 6;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!mhz || type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  *mhz = type == NVML_CLOCK_MEM ? card->model.mem_clock_mhz : card->model.sm_clock_mhz;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz) {
  return impl_nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

nvmlReturn_t impl_nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!reasons) return NVML_ERROR_INVALID_ARGUMENT;
  *reasons = load(card) > 0 ? 0 : (unsigned long long)nvmlClocksThrottleReasonGpuIdle;
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
  return impl_nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

nvmlReturn_t impl_nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *percent) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!percent) return NVML_ERROR_INVALID_ARGUMENT;
  if (!card->model.fan) return NVML_ERROR_NOT_SUPPORTED;
  *percent = 30 + (unsigned)(40 * load(card));
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *percent) {
  return fan == 0 ? impl_nvmlDeviceGetFanSpeed(device, percent) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t impl_nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned *count) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = card->model.fan;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!celsius || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  *celsius = card->model.temp_idle_c + (unsigned)((card->model.temp_full_c - card->model.temp_idle_c) * load(card));
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
  unsigned celsius = 0;
  nvmlReturn_t result;
  if (!temperature) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  result = impl_nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius);
  if (result == NVML_SUCCESS) temperature->temperature = (int)celsius;
  return result;
}

nvmlReturn_t impl_nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t which, unsigned *celsius) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!celsius) return NVML_ERROR_INVALID_ARGUMENT;
  switch (which) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: *celsius = 92; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: *celsius = 89; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX: *celsius = 87; return NVML_SUCCESS;
    default: return NVML_ERROR_NOT_SUPPORTED;
  }
}

nvmlReturn_t impl_nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *state) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!state) return NVML_ERROR_INVALID_ARGUMENT;
  *state = load(card) > 0 || !card->model.fan ? NVML_PSTATE_0 : NVML_PSTATE_8; /* server cards stay in P0 */
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!milliwatts) return NVML_ERROR_INVALID_ARGUMENT;
  *milliwatts = (unsigned)(watts(card, load(card)) * 1000);
  return NVML_SUCCESS;
}

/* The integral of the power above: idle since the node was made, and the rest while kernels ran. */
nvmlReturn_t impl_nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
  struct sim_card *card;
  uint64_t now;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!millijoules) return NVML_ERROR_INVALID_ARGUMENT;
  now = look();
  *millijoules = (unsigned long long)(watts(card, 0) * (double)(now - nvml.node.node->started_ns) / 1e6 +
                                      (watts(card, 1) - watts(card, 0)) * (double)card->busy_ns / 1e6);
  looked();
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!milliwatts) return NVML_ERROR_INVALID_ARGUMENT;
  *milliwatts = card->model.power_limit_w * 1000;
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
  return impl_nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
nvmlReturn_t impl_nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *milliwatts) {
  return impl_nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

nvmlReturn_t impl_nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *low, unsigned *high) {
  nvmlReturn_t result = impl_nvmlDeviceGetPowerManagementLimit(device, high);
  if (result != NVML_SUCCESS) return result;
  if (!low) return NVML_ERROR_INVALID_ARGUMENT;
  *low = *high / 2;
  return NVML_SUCCESS;
}

/* Bytes moved in the newest window at the link's rate, KB/s; both directions share one figure. */
nvmlReturn_t impl_nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned *value) {
  struct sim_card *card;
  nvmlUtilization_t rates;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!value || counter >= NVML_PCIE_UTIL_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  result = impl_nvmlDeviceGetUtilizationRates(device, &rates);
  *value = (unsigned)(sim_link_bps(&card->model) / 1000 * rates.memory / 100);
  return result;
}
