/* Setting wants root, reading does not. Limits of zero and "no limit" take the limit away. */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

enum { FIRST_VERSION = 13040 }; /* CUDA 13.4 came with branch 615 */

static nvmlReturn_t find(nvmlDevice_t device, const char *folder, struct sim_card **card, uint64_t *group) {
  nvmlReturn_t result = need_card(device, card);
  if (result != NVML_SUCCESS) return result;
  if (nvml.node.node->options.driver_version < FIRST_VERSION) return NVML_ERROR_FUNCTION_NOT_FOUND;
  if (!folder) return NVML_ERROR_INVALID_ARGUMENT;
  switch (sim_group_of(folder, group)) {
    case 0: return NVML_SUCCESS;
    case -ENOENT: return NVML_ERROR_NOT_FOUND;
    default: return NVML_ERROR_INVALID_ARGUMENT;
  }
}

nvmlReturn_t impl_nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits) {
  struct sim_card *card;
  uint64_t group;
  nvmlReturn_t result = find(device, limits ? limits->nameSpace : NULL, &card, &group);
  if (result != NVML_SUCCESS) return result;
  if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
  if (limits->softLimit > limits->hardLimit) return NVML_ERROR_INVALID_ARGUMENT;
  return sim_wall_set(&nvml.node, group, card->index, limits->softLimit, limits->hardLimit) == 0
             ? NVML_SUCCESS
             : NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t impl_nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits) {
  struct sim_card *card;
  struct sim_wall wall;
  uint64_t group, used;
  nvmlReturn_t result = find(device, limits ? limits->nameSpace : NULL, &card, &group);
  if (result != NVML_SUCCESS) return result;
  sim_wall_get(&nvml.node, group, card->index, &wall, &used);
  limits->softLimit = wall.soft;
  limits->hardLimit = wall.hard;
  limits->currentUsed = used;
  return NVML_SUCCESS;
}
