#include <stdio.h>
#include <string.h>

#include "books.h"
#include "cards.h"
#include "clock.h"
#include "engine.h"
#include "tool.h"

#define MIB (1024.0 * 1024.0)

static const char *const health_names[] = {"healthy", "unhealthy", "lost"};
static const char *const class_names[SIM_CLASSES] = {"linear", "managed", "array", "pool", "vmm", "context", "graphics"};

/* Program names may hold anything: keep the JSON and the terminal clean. */
static const char *clean(const char *name, char out[17]) {
  int i = 0;
  for (; i < 16 && name[i]; i++) out[i] = name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\' ? '?' : name[i];
  out[i] = '\0';
  return out;
}

static bool on_card(const struct sim_proc *proc, const struct sim_card *card) {
  return proc->live && (proc->contexts[card->index] || sim_proc_used(proc, card->index));
}

static void json_process(const struct sim_handle *handle, const struct sim_card *card, uint32_t i, uint64_t now) {
  const struct sim_proc *proc = &handle->node->procs[i];
  char name[17];
  printf("{\"slot\":%u,\"pid\":%u,\"uid\":%u,\"name\":\"%s\",\"used_bytes\":%llu,\"busy_ns\":%llu,\"utilisation\":%u,\"bytes\":{", i,
         sim_proc_pid(handle, i), proc->uid, clean(proc->comm, name), (unsigned long long)sim_proc_used(proc, card->index),
         (unsigned long long)card->proc_busy_ns[i], sim_utilisation(card, now, i));
  for (int class = 0; class < SIM_CLASSES; class ++) {
    printf("%s\"%s\":%llu", class ? "," : "", class_names[class], (unsigned long long)proc->bytes[card->index][class]);
  }
  printf("}}");
}

static void json_card(const struct sim_handle *handle, const struct sim_card *card, uint64_t now) {
  const struct sim_node *node = handle->node;
  char uuid[41];
  const char *comma = "";
  sim_uuid_text(card, uuid);
  printf("{\"index\":%u,\"name\":\"%s\",\"uuid\":\"%s\",\"health\":\"%s\",\"memory_bytes\":%llu,\"reserve_bytes\":%llu,"
         "\"capacity_bytes\":%llu,\"used_bytes\":%llu,\"peak_bytes\":%llu,\"busy_ns\":%llu,\"switch_ns\":%llu,\"switches\":%llu,"
         "\"utilisation\":%u,\"part_of\":%d,\"processes\":[",
         card->index, card->model.name, uuid, health_names[card->health], (unsigned long long)card->model.memory,
         (unsigned long long)card->model.reserve, (unsigned long long)sim_card_capacity(card),
         (unsigned long long)sim_card_used(node, card->index), (unsigned long long)card->peak_bytes,
         (unsigned long long)card->busy_ns, (unsigned long long)card->switch_ns, (unsigned long long)card->switches,
         sim_utilisation(card, now, SIM_NONE), (int)card->parent);
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (!on_card(&node->procs[i], card)) continue;
    fputs(comma, stdout);
    json_process(handle, card, i, now);
    comma = ",";
  }
  printf("]}");
}

static void json(const struct sim_handle *handle, uint64_t now) {
  const struct sim_node *node = handle->node;
  printf("{\"time\":\"%s\",\"now_ns\":%llu,\"driver_version\":%u,\"repairs\":%u,\"reclaims\":%u,\"threads\":%u,\"stalls\":%u,\"cards\":[",
         node->options.virtual_time ? "virtual" : "real", (unsigned long long)now, node->options.driver_version, node->repairs,
         node->reclaims, node->clock.registered, node->clock.stalls);
  for (uint32_t i = 0; i < node->card_count; i++) {
    if (i) putchar(',');
    json_card(handle, &node->cards[i], now);
  }
  printf("]}\n");
}

static void text(const struct sim_handle *handle, uint64_t now) {
  const struct sim_node *node = handle->node;
  char name[17], uuid[41];
  for (uint32_t c = 0; c < node->card_count; c++) {
    const struct sim_card *card = &node->cards[c];
    sim_uuid_text(card, uuid);
    printf("%u  %-26s %s  %s  %.0f of %.0f MiB used, %u %% busy\n", c, card->model.name, uuid, health_names[card->health],
           (double)sim_card_used(node, c) / MIB, (double)sim_card_capacity(card) / MIB, sim_utilisation(card, now, SIM_NONE));
    for (uint32_t i = 0; i < node->proc_high; i++) {
      const struct sim_proc *proc = &node->procs[i];
      if (!on_card(proc, card)) continue;
      printf("     pid %-8u %-16s %10.0f MiB %4u %%\n", sim_proc_pid(handle, i), clean(proc->comm, name),
             (double)sim_proc_used(proc, c) / MIB, sim_utilisation(card, now, i));
    }
  }
}

int sim_tool_show(int argc, char **argv) {
  struct sim_handle handle;
  bool as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc != 1 && !as_json) return sim_tool_usage();
  if (sim_tool_open(&handle, argv[0])) return 1;
  sim_lock(&handle);
  sim_advance_all(&handle);
  sim_reclaim(&handle);
  (as_json ? json : text)(&handle, sim_now(&handle));
  sim_unlock(&handle);
  sim_close(&handle);
  return 0;
}
