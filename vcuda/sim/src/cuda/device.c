#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attributes.h"
#include "impl.h"

CUresult impl_cuDeviceGet(CUdevice *device, int ordinal) {
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal < 0 || ordinal >= driver.count) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetCount(int *count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = driver.count;
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetName(char *name, int size, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!name || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)size, "%s", card->model.name);
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, card->uuid, sizeof card->uuid);
  return CUDA_SUCCESS;
}

/* The first version knows whole cards only. */
CUresult impl_cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  struct sim_card *card;
  CUresult result = impl_cuDeviceGetUuid_v2(uuid, device);
  if (result == CUDA_SUCCESS) result = need_device(device, &card);
  if (result == CUDA_SUCCESS && card->parent != SIM_NONE) memcpy(uuid->bytes, driver.node.node->cards[card->parent].uuid, sizeof card->uuid);
  return result;
}

CUresult impl_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = sim_card_capacity(card);
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!value || attribute < 1 || (int)attribute > 256) return CUDA_ERROR_INVALID_VALUE;
  *value = device_attribute(card, attribute);
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  *properties = (CUdevprop){
      .maxThreadsPerBlock = 1024,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {2147483647, 65535, 65535},
      .sharedMemPerBlock = (int)card->model.shared_per_block,
      .totalConstantMemory = 65536,
      .SIMDWidth = 32,
      .memPitch = 2147483647,
      .regsPerBlock = 65536,
      .clockRate = (int)card->model.sm_clock_mhz * 1000,
      .textureAlign = 512,
  };
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = (int)card->model.cc_major;
  *minor = (int)card->model.cc_minor;
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetPCIBusId(char *text, int size, CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!text || size < 13) return CUDA_ERROR_INVALID_VALUE;
  snprintf(text, (size_t)size, "0000:%02X:00.0", sim_pci_bus(card));
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
  unsigned domain, bus, slot;
  if (!device || !text) return CUDA_ERROR_INVALID_VALUE;
  if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (sscanf(text, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
  }
  for (int i = 0; i < driver.count; i++) {
    if (domain != 0 || slot != 0 || sim_pci_bus(&driver.node.node->cards[driver.visible[i]]) != bus) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult impl_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  struct sim_card *a, *b;
  CUresult result = need_device(device, &a);
  if (result == CUDA_SUCCESS) result = need_device(peer, &b);
  if (result != CUDA_SUCCESS) return result;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer && strcmp(a->model.name, b->model.name) == 0;
  return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  int can;
  CUresult result = impl_cuDeviceCanAccessPeer(&can, from, to);
  if (result != CUDA_SUCCESS) return result;
  if (!value || from == to) return from == to ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? can : 0;
  return CUDA_SUCCESS;
}
