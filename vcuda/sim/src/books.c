#include "books.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "shares.h"

uint64_t sim_proc_used(const struct sim_proc *proc, uint32_t card) {
  uint64_t sum = 0;
  for (int class = 0; class < SIM_CLASSES; class ++) sum += proc->bytes[card][class];
  return sum;
}

uint64_t sim_card_used(const struct sim_node *node, uint32_t card) {
  uint64_t sum = sim_share_unowned(node, card);
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (node->procs[i].live) sum += sim_proc_used(&node->procs[i], card);
  }
  return sum;
}

static int charge_locked(struct sim_handle *handle, uint32_t index, enum sim_class class, uint64_t bytes) {
  struct sim_node *node = handle->node;
  struct sim_card *card = &node->cards[index];
  uint64_t capacity = sim_card_capacity(card);
  uint64_t used = sim_card_used(node, index);

  if (used > capacity || bytes > capacity - used || used + bytes > card->peak_bytes) { /* a new peak must not count the dead */
    sim_reclaim(handle);
    used = sim_card_used(node, index);
  }
  if (used > capacity || bytes > capacity - used) return -ENOMEM;
  if (node->walls.high > 0 && bytes > sim_wall_room(handle, index)) return -ENOMEM;
  node->procs[handle->proc].bytes[index][class] += bytes;
  if (used + bytes > card->peak_bytes) card->peak_bytes = used + bytes;
  return 0;
}

int sim_charge(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes) {
  int result;
  sim_lock(handle);
  result = charge_locked(handle, card, class, bytes);
  sim_unlock(handle);
  return result;
}

void sim_discharge(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes) {
  uint64_t *held;
  sim_lock(handle);
  held = &handle->node->procs[handle->proc].bytes[card][class];
  *held -= bytes < *held ? bytes : *held;
  sim_unlock(handle);
}

int sim_context_begin(struct sim_handle *handle, uint32_t card) {
  struct sim_node *node = handle->node;
  int result = 0;
  sim_lock(handle);
  if (node->procs[handle->proc].contexts[card] == 0) {
    result = charge_locked(handle, card, SIM_CONTEXT, node->cards[card].model.context);
  }
  if (result == 0) node->procs[handle->proc].contexts[card]++;
  sim_unlock(handle);
  return result;
}

void sim_context_end(struct sim_handle *handle, uint32_t card) {
  struct sim_proc *proc = &handle->node->procs[handle->proc];
  sim_lock(handle);
  if (proc->contexts[card] > 0 && --proc->contexts[card] == 0) proc->bytes[card][SIM_CONTEXT] = 0;
  sim_unlock(handle);
}

int sim_set_kernel_cost(struct sim_handle *handle, const char *pattern, uint64_t cost_ns) {
  struct sim_node *node = handle->node;
  uint32_t i = 0;
  int result = 0;

  if (strlen(pattern) >= SIM_NAME) return -ENAMETOOLONG;
  sim_lock(handle);
  while (i < node->kernel_cost_count && strcmp(node->kernel_costs[i].pattern, pattern) != 0) i++;
  if (i < SIM_MAX_KERNEL_COSTS) {
    snprintf(node->kernel_costs[i].pattern, SIM_NAME, "%s", pattern);
    node->kernel_costs[i].cost_ns = cost_ns;
    if (i == node->kernel_cost_count) node->kernel_cost_count++;
    __atomic_add_fetch(&node->kernel_cost_generation, 1, __ATOMIC_RELEASE); /* partner: the launch path's acquire load */
  } else {
    result = -ENOSPC;
  }
  sim_unlock(handle);
  return result;
}

bool sim_kernel_cost(struct sim_handle *handle, const char *name, uint64_t *cost_ns) {
  struct sim_node *node = handle->node;
  bool found = false;
  sim_lock(handle);
  for (uint32_t i = 0; i < node->kernel_cost_count && !found; i++) {
    found = fnmatch(node->kernel_costs[i].pattern, name, 0) == 0;
    if (found) *cost_ns = node->kernel_costs[i].cost_ns;
  }
  sim_unlock(handle);
  return found;
}

/* The first fault that meets this call now; counted down. */
static struct sim_fault take_fault(struct sim_handle *handle, const char *call, bool after) {
  struct sim_node *node = handle->node;
  struct sim_fault taken = {.kind = SIM_FAULT_NONE};
  sim_lock(handle);
  for (int i = 0; i < SIM_MAX_FAULTS && taken.kind == SIM_FAULT_NONE; i++) {
    struct sim_fault *fault = &node->faults[i];
    if (fault->kind == SIM_FAULT_NONE || (fault->after != 0) != after || fnmatch(fault->call, call, 0) != 0) continue;
    if (fault->skip > 0) {
      fault->skip--;
      continue;
    }
    taken = *fault;
    if (--fault->times > 0) continue;
    fault->kind = SIM_FAULT_NONE;
    __atomic_sub_fetch(&node->fault_count, 1, __ATOMIC_RELAXED);
  }
  sim_unlock(handle);
  return taken;
}

int sim_fault_result(struct sim_handle *handle, const char *call, bool after) {
  struct sim_fault fault;
  if (__atomic_load_n(&handle->node->fault_count, __ATOMIC_RELAXED) == 0) return 0; /* no fault set: nothing to order against */
  fault = take_fault(handle, call, after);
  if (fault.kind == SIM_FAULT_KILL) kill(getpid(), SIGKILL);
  if (fault.kind == SIM_FAULT_SLOW) sim_sleep_until(handle, sim_now(handle) + fault.delay_ns);
  return fault.kind == SIM_FAULT_FAIL ? fault.result : 0;
}
