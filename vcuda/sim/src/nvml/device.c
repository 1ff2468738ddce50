/* What a card is. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define BUS(card) (0x17u + (sim_is_part(card) ? (card)->parent : (card)->index))

nvmlReturn_t impl_nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  return result == NVML_SUCCESS ? give_text(name, size, card->model.name) : result;
}

nvmlReturn_t impl_nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!brand) return NVML_ERROR_INVALID_ARGUMENT;
  *brand = (nvmlBrandType_t)card->model.brand;
  return NVML_SUCCESS;
}

static nvmlReturn_t give_number(nvmlDevice_t device, unsigned *out, unsigned (*what)(const struct sim_card *card)) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = what(card);
  return NVML_SUCCESS;
}

static unsigned index_of(const struct sim_card *card) { return card->index; }
static unsigned board_of(const struct sim_card *card) { return BUS(card) << 8; }
static unsigned gen_of(const struct sim_card *card) { return card->model.pcie_gen; }
static unsigned width_of(const struct sim_card *card) { return card->model.pcie_width; }
static unsigned bits_of(const struct sim_card *card) { return card->model.bus_width; }
static unsigned numa_of(const struct sim_card *card) {
  (void)card; /* a node of one socket */
  return 0;
}
/* FP32 units per multiprocessor: 64 on Turing and GA100, 128 since. */
static unsigned cores_of(const struct sim_card *card) {
  const struct sim_card_model *m = &card->model;
  return m->sms * (m->cc_major < 8 || (m->cc_major == 8 && m->cc_minor == 0) ? 64 : 128);
}

nvmlReturn_t impl_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out) {
  struct sim_card *card;
  nvmlReturn_t result = known_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = index_of(card);
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *out) { return give_number(device, out, index_of); }
nvmlReturn_t impl_nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *out) { return give_number(device, out, board_of); }
nvmlReturn_t impl_nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *out) { return give_number(device, out, gen_of); }
nvmlReturn_t impl_nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *out) { return give_number(device, out, gen_of); }
nvmlReturn_t impl_nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *out) { return give_number(device, out, width_of); }
nvmlReturn_t impl_nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *out) { return give_number(device, out, width_of); }
nvmlReturn_t impl_nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *out) { return give_number(device, out, bits_of); }
nvmlReturn_t impl_nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *out) { return give_number(device, out, cores_of); }
nvmlReturn_t impl_nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *out) { return give_number(device, out, numa_of); }

nvmlReturn_t impl_nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned size) {
  struct sim_card *card;
  char text[32];
  uint64_t digits;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  memcpy(&digits, card->uuid, sizeof digits);
  snprintf(text, sizeof text, "%013llu", (unsigned long long)(digits % 10000000000000ull));
  return give_text(serial, size, text);
}

nvmlReturn_t impl_nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) {
  struct sim_card *card;
  char text[41];
  nvmlReturn_t result = known_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  sim_uuid_text(card, text);
  return give_text(uuid, size, text);
}

nvmlReturn_t impl_nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *part, unsigned size) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  return result == NVML_SUCCESS ? give_text(part, size, "SIM-0000-000") : result;
}

nvmlReturn_t impl_nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned size) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  return result == NVML_SUCCESS ? give_text(version, size, "00.00.00.00.00") : result;
}

nvmlReturn_t impl_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  struct sim_card *card;
  nvmlReturn_t result = known_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  *pci = (nvmlPciInfo_t){.bus = BUS(card), .pciDeviceId = card->model.device_id, .pciSubSystemId = card->model.device_id};
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", BUS(card) & 0xff);
  snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", BUS(card) & 0xff);
  return NVML_SUCCESS;
}

/* The first two versions have the short bus id and the numbers, as now, and then 16 bytes of nothing: programs of that time gave no more room. */
nvmlReturn_t impl_nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  enum { NOTHING = 16 };
  nvmlPciInfo_t now;
  nvmlReturn_t result = pci ? impl_nvmlDeviceGetPciInfo_v3(device, &now) : NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  memcpy(pci, &now, offsetof(nvmlPciInfo_t, busId));
  memset((char *)pci + offsetof(nvmlPciInfo_t, busId), 0, NOTHING);
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci) { return impl_nvmlDeviceGetPciInfo_v2(device, pci); }

nvmlReturn_t impl_nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch) {
  static const struct {
    const char *name;
    nvmlDeviceArchitecture_t value;
  } known[] = {{"turing", NVML_DEVICE_ARCH_TURING}, {"ampere", NVML_DEVICE_ARCH_AMPERE}, {"ada", NVML_DEVICE_ARCH_ADA},
               {"hopper", NVML_DEVICE_ARCH_HOPPER}, {"blackwell", NVML_DEVICE_ARCH_BLACKWELL}};
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!arch) return NVML_ERROR_INVALID_ARGUMENT;
  *arch = NVML_DEVICE_ARCH_UNKNOWN;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, card->model.arch) == 0) *arch = known[i].value;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!major || !minor) return NVML_ERROR_INVALID_ARGUMENT;
  *major = (int)card->model.cc_major;
  *minor = (int)card->model.cc_minor;
  return NVML_SUCCESS;
}

/* Answered for MIG devices only, as on hardware. */
nvmlReturn_t impl_nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!attributes) return NVML_ERROR_INVALID_ARGUMENT;
  if (!sim_is_part(card)) return NVML_ERROR_NOT_SUPPORTED;
  *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = card->model.sms, .sharedCopyEngineCount = card->slices,
                                         .gpuInstanceSliceCount = card->slices, .computeInstanceSliceCount = card->slices,
                                         .memorySizeMB = (unsigned long long)(card->model.memory >> 20)};
  return NVML_SUCCESS;
}

static nvmlReturn_t first_bit(nvmlDevice_t device, unsigned size, unsigned long *set, unsigned long value) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!set || size == 0) return NVML_ERROR_INVALID_ARGUMENT;
  memset(set, 0, size * sizeof *set);
  set[0] = value;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set) {
  return first_bit(device, size, set, ~0ul);
}

nvmlReturn_t impl_nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long *set, nvmlAffinityScope_t scope) {
  (void)scope;
  return first_bit(device, size, set, 1);
}

nvmlReturn_t impl_nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level) {
  struct sim_card *first, *second;
  nvmlReturn_t result = need_card(a, &first);
  if (result == NVML_SUCCESS) result = need_card(b, &second);
  if (result != NVML_SUCCESS) return result;
  if (!level) return NVML_ERROR_INVALID_ARGUMENT;
  *level = first == second ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE;
  return NVML_SUCCESS;
}
