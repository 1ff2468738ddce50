#define _GNU_SOURCE
#include "clock.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine.h"
#include "util.h"

#define NS_PER_MS 1000000ull
#define LOOK_AGAIN_MS 100ull /* real time after which a waiting thread checks that the one with the turn still lives */

static _Thread_local uint32_t self = SIM_NONE; /* our entry in threads[] */

uint64_t sim_now(const struct sim_handle *handle) {
  if (!handle->node->options.virtual_time) return sim_monotonic_ns();
  return __atomic_load_n(&handle->node->clock.now_ns, __ATOMIC_ACQUIRE); /* partner: the release store in pass_turn */
}

static bool before(const struct sim_thread *a, const struct sim_thread *b) {
  if (a->wake_ns != b->wake_ns) return a->wake_ns < b->wake_ns;
  if (a->rank != b->rank) return a->rank < b->rank;
  if (a->serial != b->serial) return a->serial < b->serial;
  return a < b;
}

static uint32_t next_thread(const struct sim_node *node) {
  uint32_t best = SIM_NONE;
  for (uint32_t i = 0; i < node->thread_high; i++) {
    const struct sim_thread *thread = &node->threads[i];
    if (thread->state != SIM_THREAD_BLOCKED || thread->wake_ns == SIM_NEVER) continue;
    if (best == SIM_NONE || before(thread, &node->threads[best])) best = i;
  }
  return best;
}

/* Gives the turn, which must be free, to the next thread and moves the clock to its wake time. */
static void pass_turn(struct sim_node *node) {
  struct sim_clock *clock = &node->clock;
  uint32_t next;
  struct sim_thread *thread;

  clock->turn = SIM_NONE;
  if (clock->registered < clock->hold) return;
  clock->hold = 0;
  next = next_thread(node);
  if (next == SIM_NONE) return;
  thread = &node->threads[next];
  if (thread->wake_ns > clock->now_ns) __atomic_store_n(&clock->now_ns, thread->wake_ns, __ATOMIC_RELEASE);
  thread->state = SIM_THREAD_RUNNING;
  clock->turn = next;
  clock->turn_since_real_ns = sim_coarse_ns();
  if (next == self) return;
  __atomic_add_fetch(&thread->wake, 1, __ATOMIC_RELEASE); /* partner: sim_futex_wait in await_turn */
  sim_futex_wake(&thread->wake, 1);
}

static void leave(struct sim_node *node, uint32_t index) {
  if (node->threads[index].state == SIM_THREAD_FREE) return;
  node->threads[index].state = SIM_THREAD_FREE;
  if (node->clock.registered > 0) node->clock.registered--;
  if (node->clock.turn == index) pass_turn(node);
}

void sim_clock_bury(struct sim_handle *handle, uint32_t proc) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->thread_high; i++) {
    if (node->threads[i].state != SIM_THREAD_FREE && node->threads[i].proc == proc) leave(node, i);
  }
}

void sim_clock_notify(struct sim_handle *handle, uint32_t proc) {
  struct sim_node *node = handle->node;
  if (!node->options.virtual_time) return;
  for (uint32_t i = 0; i < node->thread_high; i++) {
    struct sim_thread *thread = &node->threads[i];
    if (thread->state == SIM_THREAD_BLOCKED && thread->proc == proc && thread->wake_ns == SIM_NEVER) {
      thread->wake_ns = node->clock.now_ns;
    }
  }
  if (node->clock.turn == SIM_NONE) pass_turn(node);
}

static void take_back_turn(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  uint64_t held = sim_coarse_ns() - node->clock.turn_since_real_ns;
  uint32_t holder = node->clock.turn;

  sim_reclaim(handle);
  if (node->clock.turn != holder || holder == SIM_NONE) return;
  if (held < node->options.stall_ms * NS_PER_MS) return;
  node->threads[holder].state = SIM_THREAD_ABSENT;
  node->clock.stalls++;
  pass_turn(node);
}

/* Needs the lock, gives it up while waiting. */
static void await_turn(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  struct sim_thread *me = &node->threads[self];
  while (node->clock.turn != self) {
    uint32_t seen = __atomic_load_n(&me->wake, __ATOMIC_ACQUIRE);
    sim_unlock(handle);
    sim_futex_wait(&me->wake, seen, sim_monotonic_ns() + LOOK_AGAIN_MS * NS_PER_MS);
    sim_lock(handle);
    if (node->clock.turn == self) break;
    if (node->clock.turn == SIM_NONE) pass_turn(node);
    else take_back_turn(handle);
  }
}

static void block_virtual(struct sim_handle *handle, uint64_t until_ns) {
  struct sim_node *node = handle->node;
  struct sim_thread *me = &node->threads[self];
  me->wake_ns = until_ns > node->clock.now_ns ? until_ns : node->clock.now_ns;
  me->state = SIM_THREAD_BLOCKED;
  if (node->clock.turn == self || node->clock.turn == SIM_NONE) pass_turn(node);
  await_turn(handle);
}

/* A thread calls that takes part but has not the turn: it lost it by a stall, or was just registered. */
static void want_turn(struct sim_handle *handle) {
  if (handle->node->clock.turn != self) block_virtual(handle, 0);
}

static uint32_t find_thread(const struct sim_node *node, uint32_t proc, uint32_t tid) {
  for (uint32_t i = 0; i < node->thread_high; i++) {
    const struct sim_thread *thread = &node->threads[i];
    if (thread->state != SIM_THREAD_FREE && thread->proc == proc && thread->tid == tid) return i;
  }
  return SIM_NONE;
}

static uint32_t add_thread(struct sim_node *node, uint32_t proc, uint32_t tid) {
  uint32_t serial = 0;
  uint32_t index = 0;
  for (uint32_t i = 0; i < node->thread_high; i++) {
    if (node->threads[i].state != SIM_THREAD_FREE && node->threads[i].proc == proc) serial++;
  }
  while (index < SIM_MAX_THREADS && index < node->thread_high && node->threads[index].state != SIM_THREAD_FREE) index++;
  if (index >= SIM_MAX_THREADS) return SIM_NONE;
  if (index >= node->thread_high) node->thread_high = index + 1;
  node->threads[index] = (struct sim_thread){.state = SIM_THREAD_BLOCKED,
                                             .proc = proc,
                                             .rank = node->procs[proc].rank,
                                             .serial = serial,
                                             .tid = tid,
                                             .wake_ns = node->clock.now_ns};
  node->clock.registered++;
  return index;
}

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void on_thread_exit(void *handle) { sim_thread_unregister(handle); }
static void make_exit_key(void) { pthread_key_create(&exit_key, on_thread_exit); }

int sim_thread_register(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  uint32_t tid;
  int result;

  if (!node->options.virtual_time || self != SIM_NONE) return 0;
  if (handle->proc == SIM_NONE && (result = sim_attach(handle)) < 0) return result;
  tid = (uint32_t)syscall(SYS_gettid);
  sim_lock(handle);
  self = find_thread(node, handle->proc, tid);
  if (self == SIM_NONE) self = add_thread(node, handle->proc, tid);
  if (self != SIM_NONE && node->clock.turn == SIM_NONE) pass_turn(node);
  sim_unlock(handle);
  if (self == SIM_NONE) return -ENOSPC;
  pthread_once(&exit_once, make_exit_key);
  pthread_setspecific(exit_key, handle);
  return 0;
}

void sim_thread_unregister(struct sim_handle *handle) {
  if (self == SIM_NONE || !handle->node) return;
  sim_lock(handle);
  if (handle->node->threads[self].tid == (uint32_t)syscall(SYS_gettid)) leave(handle->node, self);
  self = SIM_NONE;
  sim_unlock(handle);
}

void sim_thread_forget(void) { self = SIM_NONE; }

int sim_sleep_until(struct sim_handle *handle, uint64_t until_ns) {
  int result = sim_thread_register(handle);
  uint32_t never_changes = 0;
  if (result < 0) return result;
  if (!handle->node->options.virtual_time) {
    while (sim_monotonic_ns() < until_ns) sim_futex_wait(&never_changes, 0, until_ns);
    return 0;
  }
  sim_lock(handle);
  want_turn(handle);
  if (until_ns > handle->node->clock.now_ns) block_virtual(handle, until_ns);
  sim_unlock(handle);
  return 0;
}

void sim_spend(struct sim_handle *handle, uint64_t ns) {
  if (!handle->node->options.virtual_time || sim_thread_register(handle) < 0) return;
  sim_lock(handle);
  want_turn(handle);
  block_virtual(handle, handle->node->clock.now_ns + ns);
  sim_unlock(handle);
}

static void block_real(struct sim_handle *handle, uint64_t until_ns) {
  uint32_t *wake = &handle->node->procs[handle->proc].wake;
  uint32_t seen = __atomic_load_n(wake, __ATOMIC_ACQUIRE); /* partner: the add in sim_notify, also under the lock */
  sim_unlock(handle);
  sim_futex_wait(wake, seen, until_ns);
  sim_lock(handle);
}

/* A neighbour that died must not keep the card from a thread that waits for it. Asking the kernel about every process costs
 * about 1 us each, so not for every short wait. */
static void reclaim_sometimes(struct sim_handle *handle) {
  static _Thread_local uint64_t looked_ns;
  if (sim_coarse_ns() - looked_ns < 5 * NS_PER_MS) return;
  looked_ns = sim_coarse_ns();
  sim_reclaim(handle);
  sim_advance_all(handle);
}

void sim_wait_locked(struct sim_handle *handle, sim_ready_fn ready, sim_earliest_fn earliest, const void *what) {
  bool virtual_time = handle->node->options.virtual_time != 0;

  if (virtual_time && self == SIM_NONE) {
    /* A thread that has nothing to wait for need not take part: many only set up what others use. */
    sim_lock(handle);
    sim_advance_all(handle);
    if (ready(handle, what)) return;
    sim_unlock(handle);
    if (sim_thread_register(handle) < 0) virtual_time = false;
  }
  sim_lock(handle);
  if (virtual_time) want_turn(handle);
  for (;;) {
    uint64_t until;
    sim_advance_all(handle);
    if (ready(handle, what)) return;
    if (!virtual_time) reclaim_sometimes(handle);
    until = earliest(handle, what);
    if (virtual_time) block_virtual(handle, until);
    else block_real(handle, until);
  }
}
