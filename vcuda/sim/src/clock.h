/*
 * The node's time. Real mode: CLOCK_MONOTONIC. Virtual mode: a clock that the waiting threads move.
 *
 * Virtual mode runs one registered thread at a time: the one with the turn. When it blocks it hands the turn to the thread
 * with the smallest (wake time, rank, serial), and the clock jumps to that time. A thread with the turn that dies or does not
 * come back loses it (see `stall_ms`), so nothing hangs; `stalls` counts that, since it costs repeatability.
 */
#ifndef TESSERA_SIM_CLOCK_H
#define TESSERA_SIM_CLOCK_H

#include "node.h"

uint64_t sim_now(const struct sim_handle *handle);

/* Virtual mode: this thread takes part from now on. Attaches the process when needed. 0 or a negative errno. */
int sim_thread_register(struct sim_handle *handle);
void sim_thread_unregister(struct sim_handle *handle);

/* Sleeps in the node's time. */
int sim_sleep_until(struct sim_handle *handle, uint64_t until_ns);

/* Virtual mode: the calling thread spends this much of the node's time on the host. Real mode: nothing. */
void sim_spend(struct sim_handle *handle, uint64_t ns);

/* Waits until `ready` holds; `earliest` says when it is worth looking again. Both are called with the lock and the cards
 * advanced. Returns with the lock held, at a moment at which ready was true. */
typedef bool (*sim_ready_fn)(struct sim_handle *handle, const void *what);
typedef uint64_t (*sim_earliest_fn)(struct sim_handle *handle, const void *what);
void sim_wait_locked(struct sim_handle *handle, sim_ready_fn ready, sim_earliest_fn earliest, const void *what);

/* For node.c, with the lock: a dead process leaves the clock; the threads of a process look again. */
void sim_clock_bury(struct sim_handle *handle, uint32_t proc);
void sim_clock_notify(struct sim_handle *handle, uint32_t proc);

/* After fork: the child's threads are not those registered. */
void sim_thread_forget(void);

#endif
