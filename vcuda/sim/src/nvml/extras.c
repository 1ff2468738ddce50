/* What monitoring programs ask for and this card has not. */
#include <string.h>

#include "internal.h"

static nvmlReturn_t not_supported(nvmlDevice_t device, const void *out) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  return out ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t impl_nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device) {
  if (!uuid || uuid->type != NVML_UUID_TYPE_ASCII) return NVML_ERROR_INVALID_ARGUMENT;
  if (!memchr(uuid->value.str, '\0', sizeof uuid->value.str)) return NVML_ERROR_INVALID_ARGUMENT;
  return impl_nvmlDeviceGetHandleByUUID(uuid->value.str, device);
}

/* Driver models exist on Windows only. */
nvmlReturn_t impl_nvmlDeviceGetDriverModel(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending) {
  (void)pending;
  return not_supported(device, current);
}
nvmlReturn_t impl_nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, nvmlDriverModel_t *current, nvmlDriverModel_t *pending) {
  (void)pending;
  return not_supported(device, current);
}

nvmlReturn_t impl_nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos) {
  (void)infos;
  return impl_nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, NULL);
}
nvmlReturn_t impl_nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos) {
  (void)infos;
  return impl_nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, NULL);
}

nvmlReturn_t impl_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list) {
  return not_supported(device, list);
}

/* The call succeeds; each field says for itself that it is not there. */
nvmlReturn_t impl_nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (count <= 0 || !values) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; i++) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!corrected || !uncorrected || !pending || !failed) return NVML_ERROR_INVALID_ARGUMENT;
  if (card->model.cc_major < 8 || !card->model.ecc) return NVML_ERROR_NOT_SUPPORTED;
  *corrected = *uncorrected = *pending = *failed = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *pending) {
  return not_supported(device, pending);
}

nvmlReturn_t impl_nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!reasons) return NVML_ERROR_INVALID_ARGUMENT;
  *reasons = (unsigned long long)nvmlClocksThrottleReasonGpuIdle;
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
  return impl_nvmlDeviceGetSupportedClocksThrottleReasons(device, reasons);
}

nvmlReturn_t impl_nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
  return impl_nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}
nvmlReturn_t impl_nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
  return impl_nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}

nvmlReturn_t impl_nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned size) {
  (void)size;
  return not_supported(device, version);
}

nvmlReturn_t impl_nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled, unsigned *by_default) {
  (void)by_default;
  return not_supported(device, enabled);
}

nvmlReturn_t impl_nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t which, nvmlGpuP2PStatus_t *status) {
  struct sim_card *first, *second;
  nvmlReturn_t result = need_card(a, &first);
  (void)which;
  if (result == NVML_SUCCESS) result = need_card(b, &second);
  if (result != NVML_SUCCESS) return result;
  if (!status) return NVML_ERROR_INVALID_ARGUMENT;
  *status = first != second && strcmp(first->model.name, second->model.name) == 0 ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
