#define _GNU_SOURCE
#include "node.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "queue.h"
#include "shares.h"
#include "util.h"

/* Record locks lie far beyond the end of the state, one byte per process slot. */
#define LOCK_BASE ((off_t)1 << 40)
#define PID_BASE ((off_t)1 << 41)

int sim_record_lock(int fd, int command, int64_t at, short type, struct flock *out) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
  int result = fcntl(fd, command, &lock);
  if (out) *out = lock;
  return result < 0 ? -errno : 0;
}

static int slot_lock(const struct sim_handle *handle, int command, uint32_t proc, short type, struct flock *out) {
  return sim_record_lock(handle->fd, command, LOCK_BASE + (off_t)proc, type, out);
}

static int check(const struct sim_node *node, uint64_t size) {
  char boot[sizeof node->boot_id];
  if (size < sizeof *node || node->magic != SIM_MAGIC || node->layout != SIM_LAYOUT) return -EPROTO;
  if (node->size != sizeof *node || node->card_count > SIM_MAX_CARDS) return -EPROTO;
  sim_boot_id(boot);
  return strncmp(boot, node->boot_id, sizeof boot) == 0 ? 0 : -ESTALE;
}

int sim_open(struct sim_handle *handle, const char *path) {
  struct stat status;
  void *map = MAP_FAILED;
  int result, fd;

  *handle = (struct sim_handle){.fd = -1, .map_fd = -1, .proc = SIM_NONE};
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (fstat(fd, &status) < 0) goto fail_errno;
  if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size < sizeof(struct sim_node)) {
    result = -EPROTO;
    goto fail;
  }
  map = mmap(NULL, sizeof(struct sim_node), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (map == MAP_FAILED) goto fail_errno;
  result = check(map, (uint64_t)status.st_size);
  if (result < 0) goto fail;
  /* A mapping keeps its open file description alive, in forked children too: the locks need one of their own. */
  handle->fd = open(path, O_RDWR | O_CLOEXEC);
  if (handle->fd < 0) goto fail_errno;
  handle->map_fd = fd;
  handle->node = map;
  return 0;

fail_errno:
  result = -errno;
fail:
  if (map != MAP_FAILED) munmap(map, sizeof(struct sim_node));
  close(fd);
  return result;
}

void sim_close(struct sim_handle *handle) {
  if (handle->node) munmap(handle->node, sizeof *handle->node);
  if (handle->fd >= 0) close(handle->fd);
  if (handle->map_fd >= 0) close(handle->map_fd);
  *handle = (struct sim_handle){.fd = -1, .map_fd = -1, .proc = SIM_NONE};
}

void sim_forget(struct sim_handle *handle) {
  if (handle->fd >= 0) close(handle->fd);
  if (handle->map_fd >= 0) close(handle->map_fd);
  handle->fd = handle->map_fd = -1;
}

int sim_find_node(const void *inside, char *path, uint64_t size) {
  const char *named = getenv("TESSERA_SIM_NODE");
  Dl_info info;
  const char *slash;
  int length;

  if (named && *named) {
    length = snprintf(path, size, "%s", named);
    return length >= 0 && (uint64_t)length < size ? 0 : -ENAMETOOLONG;
  }
  if (!dladdr(inside, &info) || !info.dli_fname) return -ENOENT;
  slash = strrchr(info.dli_fname, '/');
  length = snprintf(path, size, "%.*s/tessera-sim.node", slash ? (int)(slash - info.dli_fname) : 1,
                    slash ? info.dli_fname : ".");
  if (length < 0 || (uint64_t)length >= size) return -ENAMETOOLONG;
  return access(path, F_OK) == 0 ? 0 : -ENOENT;
}

/* Open-file-description locks: a close() elsewhere in the program cannot drop them, two libraries of one process see
 * each other's, and the kernel drops them however the process ends. A forked child closes its copy of the descriptor
 * (see libcuda's fork handler), so it does not keep its parent alive. */
bool sim_proc_alive(struct sim_handle *handle, uint32_t proc) {
  struct flock probe;
  if (proc == handle->proc) return true;
  if (slot_lock(handle, F_OFD_GETLK, proc, F_WRLCK, &probe) < 0) return true; /* unknown is never dead */
  return probe.l_type != F_UNLCK;
}

/* Those locks cannot tell whose they are. A plain record lock can, in the reader's own numbers, which is how a driver
 * outside all containers sees processes. It may be lost (any close of the file drops it): then the slot tells. */
uint32_t sim_proc_pid(const struct sim_handle *handle, uint32_t proc) {
  struct flock probe;
  if (sim_record_lock(handle->fd, F_GETLK, PID_BASE + (off_t)proc, F_WRLCK, &probe) < 0 || probe.l_type == F_UNLCK) {
    return handle->node->procs[proc].pid;
  }
  return probe.l_pid > 0 ? (uint32_t)probe.l_pid : 0;
}

static void describe_self(struct sim_proc *proc, uint64_t now) {
  const char *rank = getenv("TESSERA_SIM_RANK");
  memset(proc, 0, sizeof *proc);
  proc->pid = (uint32_t)getpid();
  proc->uid = (uint32_t)geteuid();
  proc->token = sim_process_token();
  proc->rank = rank ? (uint32_t)strtoul(rank, NULL, 10) : 0;
  proc->started_ns = now;
  sim_own_comm(proc->comm);
}

/* Another library of this process (libcuda and libnvidia-ml are two) may hold a slot already: share it. */
static bool share_slot(struct sim_handle *handle, uint64_t token) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (!node->procs[i].live || node->procs[i].token != token) continue;
    handle->proc = i;
    return true;
  }
  return false;
}

int sim_attach(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  int result = -ENOSPC;

  sim_lock(handle);
  sim_reclaim(handle);
  if (share_slot(handle, sim_process_token())) {
    sim_unlock(handle);
    return 0;
  }
  for (uint32_t i = 0; i < SIM_MAX_PROCS; i++) {
    if (node->procs[i].live || slot_lock(handle, F_OFD_SETLK, i, F_WRLCK, NULL) < 0) continue;
    sim_record_lock(handle->fd, F_SETLK, PID_BASE + (off_t)i, F_WRLCK, NULL);
    describe_self(&node->procs[i], sim_now(handle));
    for (uint32_t card = 0; card < node->card_count; card++) sim_forget_busy(&node->cards[card], i);
    node->procs[i].live = 1;
    if (node->proc_high <= i) node->proc_high = i + 1;
    handle->proc = i;
    result = 0;
    break;
  }
  sim_unlock(handle);
  return result;
}

/* The dead process's work leaves the queues, its bytes and its place in virtual time are given back. */
static void bury(struct sim_handle *handle, uint32_t proc) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->ctx_high; i++) {
    if (node->ctxs[i].proc == proc) sim_ctx_free(node, i);
  }
  for (uint32_t i = 0; i < node->event_high; i++) {
    if (node->events[i].proc == proc) sim_event_destroy(node, i);
  }
  sim_share_bury(handle, proc);
  memset(node->procs[proc].bytes, 0, sizeof node->procs[proc].bytes);
  node->procs[proc].live = 0;
  node->reclaims++;
  sim_clock_bury(handle, proc);
}

void sim_reclaim(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (node->procs[i].live && !sim_proc_alive(handle, i)) {
      sim_advance_all(handle);
      bury(handle, i);
    }
  }
  sim_share_sweep(handle);
}

void sim_lock(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  if (pthread_mutex_lock(&node->lock) != EOWNERDEAD) return;
  pthread_mutex_consistent(&node->lock);
  node->repairs++;
  sim_queue_repair(node);
  sim_reclaim(handle);
}

void sim_unlock(struct sim_handle *handle) { pthread_mutex_unlock(&handle->node->lock); }

void sim_notify(struct sim_handle *handle, uint32_t proc) {
  struct sim_proc *entry = &handle->node->procs[proc];
  __atomic_add_fetch(&entry->wake, 1, __ATOMIC_RELEASE); /* partner: the acquire load in sim_block */
  sim_futex_wake(&entry->wake, INT32_MAX);
  sim_clock_notify(handle, proc);
}
