/* Critical events (XID) of cards, as a health check waits for them. */
#include <stdlib.h>

#include "../util.h"
#include "internal.h"

struct nvmlEventSet_st {
  unsigned long long types[SIM_MAX_CARDS]; /* asked for */
  unsigned long long due[SIM_MAX_CARDS];   /* happened, not reported yet */
  uint32_t seen[SIM_MAX_CARDS];            /* xid_count up to which `due` is right */
};

nvmlReturn_t impl_nvmlEventSetCreate(nvmlEventSet_t *set) {
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  *set = calloc(1, sizeof **set);
  return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t impl_nvmlEventSetFree(nvmlEventSet_t set) {
  free(set);
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!types) return NVML_ERROR_INVALID_ARGUMENT;
  *types = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  const unsigned long long known = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  if (types & ~known) return NVML_ERROR_NOT_SUPPORTED;
  set->types[card->index] |= types;
  set->seen[card->index] = card->xid_count;
  return NVML_SUCCESS;
}

/* Kinds of events that come with an XID; 48 is a double-bit ECC error. */
static unsigned long long causes(uint32_t xid) {
  return nvmlEventTypeXidCriticalError | (xid == 48 ? nvmlEventTypeDoubleBitEccError : 0);
}

static bool take_event(nvmlEventSet_t set, nvmlEventData_t *data) {
  bool found = false;
  look();
  for (uint32_t i = 0; i < nvml.node.node->card_count && !found; i++) {
    struct sim_card *card = &nvml.node.node->cards[i];
    unsigned long long type;
    if (set->types[i] && set->seen[i] != card->xid_count) set->due[i] |= set->types[i] & causes(card->xid);
    set->seen[i] = card->xid_count;
    if (!set->due[i]) continue;
    type = set->due[i] & nvmlEventTypeXidCriticalError ? nvmlEventTypeXidCriticalError : nvmlEventTypeDoubleBitEccError;
    set->due[i] &= ~type;
    *data = (nvmlEventData_t){.eventType = type, .eventData = type == nvmlEventTypeXidCriticalError ? card->xid : 0,
                              .gpuInstanceId = UINT32_MAX, .computeInstanceId = UINT32_MAX};
    nvml_device_at(i, &data->device);
    found = true;
  }
  looked();
  return found;
}

/* Waits in real time also on a node with virtual time: events come from outside. */
nvmlReturn_t impl_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
  uint64_t end = sim_monotonic_ns() + timeout_ms * 1000000ull;
  if (!set || !data) return NVML_ERROR_INVALID_ARGUMENT;
  for (;;) {
    uint32_t *word = &nvml.node.node->events_word;
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* partner: the add in tessera-sim fault */
    if (take_event(set, data)) return NVML_SUCCESS;
    if (sim_monotonic_ns() >= end) return NVML_ERROR_TIMEOUT;
    sim_futex_wait(word, seen, end);
  }
}
nvmlReturn_t impl_nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
  return impl_nvmlEventSetWait_v2(set, data, timeout_ms);
}
