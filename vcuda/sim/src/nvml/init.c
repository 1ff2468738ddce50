#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../util.h"
#include "internal.h"

#define SIM_EXPORT __attribute__((visibility("default")))

struct nvml nvml = {.node = {.fd = -1, .map_fd = -1, .proc = SIM_NONE}};

/* What a device handle points to. Lives as long as the library, so a handle never dangles. */
struct nvmlDevice_st {
  uint32_t index;
};
static struct nvmlDevice_st devices[SIM_MAX_CARDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool fork_handler_set;

/* The parent's record lock must not live on through our copy of the descriptor. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&lock, NULL);
  sim_forget(&nvml.node);
  nvml.node = (struct sim_handle){.fd = -1, .map_fd = -1, .proc = SIM_NONE};
  nvml.references = 0;
  sim_thread_forget();
}

static bool open_node(void) {
  char path[PATH_MAX];
  pthread_mutex_lock(&lock);
  if (!fork_handler_set) pthread_atfork(NULL, NULL, after_fork_in_child);
  fork_handler_set = true;
  if (!nvml.node.node && sim_find_node(&nvml, path, sizeof path) == 0) sim_open(&nvml.node, path);
  for (uint32_t i = 0; i < SIM_MAX_CARDS; i++) devices[i].index = i;
  pthread_mutex_unlock(&lock);
  return nvml.node.node != NULL;
}

nvmlReturn_t impl_nvmlInitWithFlags(unsigned flags) {
  (void)flags; /* NO_GPUS and NO_ATTACH change nothing: attaching costs nothing here */
  if (!open_node()) return NVML_ERROR_DRIVER_NOT_LOADED;
  __atomic_add_fetch(&nvml.references, 1, __ATOMIC_RELEASE); /* partner: the load in begin */
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlInit_v2(void) { return impl_nvmlInitWithFlags(0); }
nvmlReturn_t impl_nvmlInit(void) { return impl_nvmlInitWithFlags(0); }

/* The node stays open: handles of the program may still be in use by another thread. */
nvmlReturn_t impl_nvmlShutdown(void) {
  __atomic_sub_fetch(&nvml.references, 1, __ATOMIC_RELEASE);
  return NVML_SUCCESS;
}

static nvmlReturn_t begin(const char *name, bool needs_init) {
  if (needs_init && __atomic_load_n(&nvml.references, __ATOMIC_ACQUIRE) == 0) return NVML_ERROR_UNINITIALIZED;
  return nvml.node.node ? (nvmlReturn_t)sim_fault_result(&nvml.node, name, false) : NVML_SUCCESS;
}

#define ENTRY(symbol, init, params, args)                   \
  SIM_EXPORT nvmlReturn_t symbol params {                   \
    nvmlReturn_t result = begin(#symbol, init);             \
    return result == NVML_SUCCESS ? impl_##symbol args : result; \
  }
#define API(symbol, params, args) ENTRY(symbol, true, params, args)
#define API_PLAIN(symbol, params, args) ENTRY(symbol, false, params, args)
#include "api.def"
#undef API
#undef API_PLAIN

void nvml_device_at(uint32_t index, nvmlDevice_t *device) { *device = &devices[index]; }

nvmlReturn_t known_card(nvmlDevice_t device, struct sim_card **card) {
  if (device < devices || device >= devices + nvml.node.node->card_count) return NVML_ERROR_INVALID_ARGUMENT;
  *card = &nvml.node.node->cards[device->index];
  return NVML_SUCCESS;
}

nvmlReturn_t need_card(nvmlDevice_t device, struct sim_card **card) {
  nvmlReturn_t result = known_card(device, card);
  return result == NVML_SUCCESS && (*card)->health == SIM_LOST ? NVML_ERROR_GPU_IS_LOST : result;
}

unsigned part_number(const struct sim_card *card) {
  unsigned number = 0;
  while (sim_part_of(nvml.node.node, card->parent, number) != card->index) number++;
  return number + 1;
}

nvmlReturn_t give_text(char *out, unsigned size, const char *text) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(out, text, strlen(text) + 1);
  return NVML_SUCCESS;
}

uint64_t look(void) {
  sim_lock(&nvml.node);
  sim_reclaim(&nvml.node);
  sim_advance_all(&nvml.node);
  return sim_now(&nvml.node);
}

void looked(void) { sim_unlock(&nvml.node); }

nvmlReturn_t impl_nvmlDeviceGetCount_v2(unsigned *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = sim_whole_cards(nvml.node.node);
  return NVML_SUCCESS;
}
nvmlReturn_t impl_nvmlDeviceGetCount(unsigned *count) { return impl_nvmlDeviceGetCount_v2(count); }

/* Whole cards and parts. */
static nvmlReturn_t handle_of(uint32_t index, nvmlDevice_t *device) {
  *device = &devices[index];
  return nvml.node.node->cards[index].health == SIM_LOST ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  if (!device || index >= sim_whole_cards(nvml.node.node)) return NVML_ERROR_INVALID_ARGUMENT;
  return handle_of(index, device);
}
nvmlReturn_t impl_nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
  return impl_nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t impl_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  char text[41];
  if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < nvml.node.node->card_count; i++) {
    sim_uuid_text(&nvml.node.node->cards[i], text);
    if (strcmp(text, uuid) == 0) return handle_of(i, device);
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t impl_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
  char text[32];
  if (!serial || !device) return NVML_ERROR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < sim_whole_cards(nvml.node.node); i++) {
    if (impl_nvmlDeviceGetSerial(&devices[i], text, sizeof text) == NVML_SUCCESS && strcmp(text, serial) == 0) {
      return impl_nvmlDeviceGetHandleByIndex_v2(i, device);
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t impl_nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
  unsigned domain, bus, slot;
  if (!text || !device || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return NVML_ERROR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < sim_whole_cards(nvml.node.node); i++) {
    if (domain == 0 && slot == 0 && bus == 0x17u + i) return impl_nvmlDeviceGetHandleByIndex_v2(i, device);
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t impl_nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device) {
  return impl_nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

SIM_EXPORT int tesseraSimNow(uint64_t *ns) {
  if (!ns || (!nvml.node.node && !open_node())) return -1;
  *ns = sim_now(&nvml.node);
  return 0;
}

SIM_EXPORT int tesseraSimSleepUntil(uint64_t ns) {
  return nvml.node.node || open_node() ? sim_sleep_until(&nvml.node, ns) : -1;
}

SIM_EXPORT int tesseraSimRegisterThread(void) { return nvml.node.node || open_node() ? sim_thread_register(&nvml.node) : -1; }

SIM_EXPORT int tesseraSimUnregisterThread(void) {
  if (!nvml.node.node) return -1;
  sim_thread_unregister(&nvml.node);
  return 0;
}
