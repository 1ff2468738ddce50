/* What a card does at this moment: memory, utilisation, processes. */
#include <string.h>
#include <time.h>

#include "internal.h"

static uint64_t used_with_parts(const struct sim_card *card) {
  uint64_t sum = sim_card_used(nvml.node.node, card->index);
  for (uint32_t i = 0, part; (part = sim_part_of(nvml.node.node, card->index, i)) != SIM_NONE; i++) sum += sim_card_used(nvml.node.node, part);
  return sum;
}

nvmlReturn_t impl_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  look();
  memory->total = card->model.memory;
  memory->reserved = card->model.reserve;
  memory->used = used_with_parts(card);
  looked();
  memory->free = memory->total - memory->reserved - memory->used;
  return NVML_SUCCESS;
}

/* Version 1 counts the driver's reserve as used. */
nvmlReturn_t impl_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
  nvmlReturn_t result = impl_nvmlDeviceGetMemoryInfo_v2(device, &v2);
  if (result != NVML_SUCCESS) return result;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  *memory = (nvmlMemory_t){.total = v2.total, .free = v2.free, .used = v2.used + v2.reserved};
  return NVML_SUCCESS;
}

/* The aperture is as large as the board's memory, rounded up to a power of two. */
nvmlReturn_t impl_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  unsigned long long size = 1ull << 28;
  if (result != NVML_SUCCESS) return result;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  while (size < card->model.memory) size *= 2;
  *memory = (nvmlBAR1Memory_t){.bar1Total = size, .bar1Free = size - (2ull << 20), .bar1Used = 2ull << 20};
  return NVML_SUCCESS;
}

static unsigned copy_percent(const struct sim_card *card, uint64_t now_ns) {
  uint64_t id = now_ns / SIM_WINDOW_NS;
  const struct sim_window *window = &card->windows[(id + SIM_WINDOWS - 1) % SIM_WINDOWS];
  uint64_t copied = id > 0 && window->id == id - 1 ? window->copy_ns : 0;
  unsigned percent = (unsigned)(copied * 100 / SIM_WINDOW_NS);
  return percent > 100 ? 100 : percent; /* two engines may work at once */
}

nvmlReturn_t impl_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
  struct sim_card *card;
  uint64_t now;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!rates) return NVML_ERROR_INVALID_ARGUMENT;
  if (sim_is_part(card) || sim_is_divided(nvml.node.node, card->index)) return NVML_ERROR_NOT_SUPPORTED; /* as on hardware */
  now = look();
  *rates = (nvmlUtilization_t){.gpu = sim_utilisation(card, now, SIM_NONE), .memory = copy_percent(card, now)};
  looked();
  return NVML_SUCCESS;
}

static nvmlReturn_t no_video(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!percent || !period_us) return NVML_ERROR_INVALID_ARGUMENT;
  *percent = 0;
  *period_us = SIM_WINDOW_NS / 1000;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
  return no_video(device, percent, period_us);
}
nvmlReturn_t impl_nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *percent, unsigned *period_us) {
  return no_video(device, percent, period_us);
}

/* A CUDA process is on a card while it has a context there. */
static bool on_card(const struct sim_proc *proc, const struct sim_card *card) { return proc->live && proc->contexts[card->index]; }

/* Those of one card or part go to infos, as far as they fit; answers how many there are. */
static unsigned list_processes(const struct sim_card *card, nvmlProcessInfo_t *infos, unsigned found, unsigned room) {
  const struct sim_node *node = nvml.node.node;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (!on_card(&node->procs[i], card)) continue;
    if (found < room) {
      infos[found] = (nvmlProcessInfo_t){.pid = sim_proc_pid(&nvml.node, i),
                                         .usedGpuMemory = sim_proc_used(&node->procs[i], card->index),
                                         .gpuInstanceId = sim_is_part(card) ? part_number(card) : UINT32_MAX,
                                         .computeInstanceId = sim_is_part(card) ? 0 : UINT32_MAX};
    }
    found++;
  }
  return found;
}

nvmlReturn_t impl_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
  const struct sim_node *node = nvml.node.node;
  struct sim_card *card;
  unsigned room;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!count || (*count && !infos)) return NVML_ERROR_INVALID_ARGUMENT;
  look();
  room = *count;
  *count = list_processes(card, infos, 0, room);
  for (uint32_t i = 0, part; (part = sim_part_of(node, card->index, i)) != SIM_NONE; i++) {
    *count = list_processes(&node->cards[part], infos, *count, room);
  }
  looked();
  return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos) {
  return impl_nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

nvmlReturn_t impl_nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos) {
  nvmlProcessInfo_t all[SIM_MAX_PROCS];
  unsigned found = SIM_MAX_PROCS, room;
  nvmlReturn_t result;
  if (!count || (*count && !infos)) return NVML_ERROR_INVALID_ARGUMENT;
  room = *count;
  result = impl_nvmlDeviceGetComputeRunningProcesses_v3(device, &found, all);
  if (result != NVML_SUCCESS) return result;
  *count = found;
  if (found > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < found; i++) infos[i] = (nvmlProcessInfo_v1_t){.pid = all[i].pid, .usedGpuMemory = all[i].usedGpuMemory};
  return NVML_SUCCESS;
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count) {
  struct sim_card *card;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos) {
  (void)infos;
  return no_processes(device, count);
}
nvmlReturn_t impl_nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos) {
  (void)infos;
  return no_processes(device, count);
}
nvmlReturn_t impl_nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
  (void)infos;
  return no_processes(device, count);
}
nvmlReturn_t impl_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
  (void)infos;
  return no_processes(device, count);
}

unsigned long long stamp_us(uint64_t ns, uint64_t now_ns) {
  struct timespec wall;
  if (nvml.node.node->options.virtual_time) return ns / 1000;
  clock_gettime(CLOCK_REALTIME, &wall);
  return (unsigned long long)wall.tv_sec * 1000000 + (unsigned long long)wall.tv_nsec / 1000 - (now_ns - ns) / 1000;
}

/* Walks the complete windows that ended after `since`, oldest first, and every process that was busy in one. Answers how
 * many samples there are; writes as many as fit. */
static unsigned samples(struct sim_card *card, uint64_t now, unsigned long long since, nvmlProcessUtilizationInfo_v1_t *out,
                        unsigned room) {
  const struct sim_node *node = nvml.node.node;
  uint64_t present = now / SIM_WINDOW_NS;
  unsigned found = 0;
  for (uint64_t id = present < SIM_WINDOWS ? 0 : present - SIM_WINDOWS + 1; id < present; id++) {
    const struct sim_window *window = &card->windows[id % SIM_WINDOWS];
    unsigned long long stamp = stamp_us((id + 1) * SIM_WINDOW_NS, now);
    if (window->id != id || stamp <= since) continue;
    for (uint32_t i = 0; i < node->proc_high; i++) {
      if (!node->procs[i].live || window->proc_ns[i] == 0) continue;
      if (found < room && out) {
        out[found] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = stamp, .pid = sim_proc_pid(&nvml.node, i),
            .smUtil = (unsigned)(((uint64_t)window->proc_ns[i] * 100 + SIM_WINDOW_NS / 2) / SIM_WINDOW_NS)};
      }
      found++;
    }
  }
  return found;
}

enum { MAX_SAMPLES = 1024 };

nvmlReturn_t impl_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out, unsigned *count,
                                                  unsigned long long since) {
  nvmlProcessUtilizationInfo_v1_t all[MAX_SAMPLES];
  struct sim_card *card;
  unsigned found, room;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  room = out ? *count : 0;
  found = samples(card, look(), since, all, MAX_SAMPLES);
  looked();
  if (found > MAX_SAMPLES) found = MAX_SAMPLES;
  *count = found;
  if (found == 0) return NVML_ERROR_NOT_FOUND;
  if (found > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < found; i++) {
    out[i] = (nvmlProcessUtilizationSample_t){.pid = all[i].pid, .timeStamp = all[i].timeStamp, .smUtil = all[i].smUtil};
  }
  return NVML_SUCCESS;
}

nvmlReturn_t impl_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info) {
  struct sim_card *card;
  unsigned room;
  nvmlReturn_t result = need_card(device, &card);
  if (result != NVML_SUCCESS) return result;
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (info->version != nvmlProcessesUtilizationInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  room = info->procUtilArray ? info->processSamplesCount : 0;
  info->processSamplesCount = samples(card, look(), info->lastSeenTimeStamp, info->procUtilArray, room);
  looked();
  if (info->processSamplesCount == 0) return NVML_ERROR_NOT_FOUND;
  return info->processSamplesCount > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
