#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "engine.h"
#include "tool.h"
#include "util.h"

static int number(const char *text, uint32_t *out) {
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (end == text || *end || value > UINT32_MAX) return -1;
  *out = (uint32_t)value;
  return 0;
}

/* Options that follow: pairs of --name value. */
static int option(int argc, char **argv, const char *name, uint32_t *out) {
  for (int i = 0; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], name) == 0) return number(argv[i + 1], out);
  }
  return 0;
}

static int add_fault(struct sim_handle *handle, const struct sim_fault *wanted) {
  struct sim_node *node = handle->node;
  int status = -ENOSPC;
  sim_lock(handle);
  for (int i = 0; i < SIM_MAX_FAULTS && status < 0; i++) {
    if (node->faults[i].kind != SIM_FAULT_NONE) continue;
    node->faults[i] = *wanted;
    __atomic_add_fetch(&node->fault_count, 1, __ATOMIC_RELAXED);
    status = 0;
  }
  sim_unlock(handle);
  return status;
}

/* CALL, for `fail` and `slow` a number, and options. */
static int set_call(struct sim_handle *handle, enum sim_fault_kind kind, int argc, char **argv) {
  static const char *const will[] = {"", "answer", "wait so many ms:", "end its process:"};
  struct sim_fault fault = {.kind = kind, .times = 1};
  uint32_t amount = 1;
  int used = kind == SIM_FAULT_KILL ? 1 : 2;
  if (argc < used || (used == 2 && (number(argv[1], &amount) < 0 || amount == 0))) return sim_tool_usage();
  if (option(argc - used, argv + used, "--skip", &fault.skip) < 0 || option(argc - used, argv + used, "--times", &fault.times) < 0 ||
      option(argc - used, argv + used, "--after", &fault.after) < 0 || strlen(argv[0]) >= SIM_NAME || fault.times == 0) {
    return sim_tool_usage();
  }
  if (kind == SIM_FAULT_FAIL && fault.after) return sim_tool_usage(); /* its work could not be taken back */
  fault.result = kind == SIM_FAULT_FAIL ? (int32_t)amount : 0;
  fault.delay_ns = amount * 1000000ull;
  snprintf(fault.call, sizeof fault.call, "%s", argv[0]);
  if (add_fault(handle, &fault) < 0) {
    return sim_tool_fail("%d faults are set already. Run `tessera-sim fault PATH clear` first.", SIM_MAX_FAULTS);
  }
  printf("%s will %s %u %u time%s after %u call%s\n", argv[0], will[kind], amount, fault.times, fault.times == 1 ? "" : "s", fault.skip,
         fault.skip == 1 ? "" : "s");
  return 0;
}

static int set_health(struct sim_handle *handle, int argc, char **argv) {
  static const char *const names[] = {"healthy", "unhealthy", "lost"};
  static const uint32_t usual_xid[] = {0, 48, 79}; /* double-bit ECC error; card fell off the bus */
  uint32_t index, health = 0, xid;
  if (argc < 2 || number(argv[0], &index) < 0) return sim_tool_usage();
  if (index >= handle->node->card_count) return sim_tool_fail("the node has no card %u", index);
  while (health < 3 && strcmp(argv[1], names[health]) != 0) health++;
  if (health == 3) return sim_tool_usage();
  xid = usual_xid[health];
  if (option(argc - 2, argv + 2, "--xid", &xid) < 0) return sim_tool_usage();
  sim_lock(handle);
  sim_advance_all(handle);
  handle->node->cards[index].health = health;
  if (xid) {
    handle->node->cards[index].xid = xid;
    handle->node->cards[index].xid_count++;
    __atomic_add_fetch(&handle->node->events_word, 1, __ATOMIC_RELEASE); /* partner: nvmlEventSetWait */
    sim_futex_wake(&handle->node->events_word, INT32_MAX);
  }
  for (uint32_t i = 0; i < handle->node->proc_high; i++) sim_notify(handle, i);
  sim_unlock(handle);
  printf("card %u is now %s\n", index, names[health]);
  return 0;
}

static int clear(struct sim_handle *handle) {
  sim_lock(handle);
  memset(handle->node->faults, 0, sizeof handle->node->faults);
  __atomic_store_n(&handle->node->fault_count, 0, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < handle->node->card_count; i++) handle->node->cards[i].health = SIM_HEALTHY;
  sim_unlock(handle);
  puts("all faults cleared");
  return 0;
}

int sim_tool_fault(int argc, char **argv) {
  struct sim_handle handle;
  int status;
  if (argc < 2) return sim_tool_usage();
  if (sim_tool_open(&handle, argv[0])) return 1;
  if (strcmp(argv[1], "fail") == 0) status = set_call(&handle, SIM_FAULT_FAIL, argc - 2, argv + 2);
  else if (strcmp(argv[1], "slow") == 0) status = set_call(&handle, SIM_FAULT_SLOW, argc - 2, argv + 2);
  else if (strcmp(argv[1], "kill") == 0) status = set_call(&handle, SIM_FAULT_KILL, argc - 2, argv + 2);
  else if (strcmp(argv[1], "card") == 0) status = set_health(&handle, argc - 2, argv + 2);
  else if (strcmp(argv[1], "clear") == 0) status = clear(&handle);
  else status = sim_tool_usage();
  sim_close(&handle);
  return status;
}
