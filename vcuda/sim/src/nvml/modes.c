/* Modes and counters that do not change in the simulation. */
#include "internal.h"

static nvmlReturn_t give_state(nvmlDevice_t device, nvmlEnableState_t *out, nvmlEnableState_t state) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = state;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return give_state(device, mode, NVML_FEATURE_ENABLED);
}
nvmlReturn_t impl_nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return give_state(device, mode, NVML_FEATURE_ENABLED);
}
nvmlReturn_t impl_nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return give_state(device, mode, NVML_FEATURE_DISABLED);
}
nvmlReturn_t impl_nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return give_state(device, mode, NVML_FEATURE_DISABLED);
}
nvmlReturn_t impl_nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return give_state(device, mode, NVML_FEATURE_DISABLED);
}

nvmlReturn_t impl_nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  *mode = NVML_COMPUTEMODE_DEFAULT;
  return NVML_SUCCESS;
}

/* Cards that can be divided say whether they are, the others that they cannot. */
nvmlReturn_t impl_nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  if (!card->model.mig_slices) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = sim_is_divided(nvml.node.node, card->index) ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = card->model.mig_slices;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!is) return NVML_ERROR_INVALID_ARGUMENT;
  *is = sim_is_part(card);
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig) {
  struct sim_card *card;
  uint32_t part;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!mig) return NVML_ERROR_INVALID_ARGUMENT;
  if (!card->model.mig_slices) return NVML_ERROR_NOT_SUPPORTED;
  part = sim_part_of(nvml.node.node, card->index, index);
  if (part == SIM_NONE) return NVML_ERROR_NOT_FOUND;
  nvml_device_at(part, mig);
  return NVML_SUCCESS;
}

static nvmlReturn_t need_part(nvmlDevice_t device, struct sim_card **card) {
  nvmlReturn_t result = need_card(device, card);
  return result == NVML_SUCCESS && !sim_is_part(*card) ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t impl_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
  struct sim_card *card;
  nvmlReturn_t result = need_part(mig, &card);
  if (result != NVML_SUCCESS) return result;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvml_device_at(card->parent, device);
  return NVML_SUCCESS;
}

/* One compute instance fills each GPU instance; the instances are numbered from 1 as the parts come. */
nvmlReturn_t impl_nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
  struct sim_card *card;
  nvmlReturn_t result = need_part(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!id) return NVML_ERROR_INVALID_ARGUMENT;
  *id = part_number(card);
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
  struct sim_card *card;
  nvmlReturn_t result = need_part(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!id) return NVML_ERROR_INVALID_ARGUMENT;
  *id = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  if (!card->model.ecc) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

/* An unhealthy card has had one double-bit error. */
nvmlReturn_t impl_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                              unsigned long long *count) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  (void)counter;
  if (result != NVML_SUCCESS) return result;
  if (!count || type >= NVML_MEMORY_ERROR_TYPE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (!card->model.ecc) return NVML_ERROR_NOT_SUPPORTED;
  *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && card->health == SIM_UNHEALTHY ? 1 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                                  nvmlMemoryLocation_t where, unsigned long long *count) {
  nvmlReturn_t result = impl_nvmlDeviceGetTotalEccErrors(device, type, counter, count);
  if (result == NVML_SUCCESS && where != NVML_MEMORY_LOCATION_DEVICE_MEMORY) *count = 0;
  return result;
}

nvmlReturn_t impl_nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *state) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  (void)link;
  if (result != NVML_SUCCESS) return result;
  return state ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}
