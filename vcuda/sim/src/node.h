/* Access to a node: mapping, the lock, and this process's place in it. */
#ifndef TESSERA_SIM_NODE_H
#define TESSERA_SIM_NODE_H

#include "state.h"

struct sim_handle {
  struct sim_node *node;
  int fd;     /* for the record locks only */
  int map_fd; /* kept open: closing any descriptor of the file would drop the record lock that shows our process id */
  uint32_t proc; /* our slot, SIM_NONE until sim_attach */
};

/* Maps the node at path. 0, or a negative errno: -ENOENT no such node, -EPROTO not a node of this layout,
 * -ESTALE made before the last boot. */
int sim_open(struct sim_handle *handle, const char *path);
void sim_close(struct sim_handle *handle);

/* Finds the node of a library: TESSERA_SIM_NODE, else tessera-sim.node beside the file that holds `inside`. */
int sim_find_node(const void *inside, char *path, uint64_t size);

/* Takes a process slot and the record lock that proves this process alive. -ENOSPC when all are taken. */
int sim_attach(struct sim_handle *handle);

/* Takes the node's lock; repairs the state first when its last owner died inside. */
void sim_lock(struct sim_handle *handle);
void sim_unlock(struct sim_handle *handle);

/* Gives back everything of processes that no longer hold their record lock. Needs the lock. */
void sim_reclaim(struct sim_handle *handle);

/* True when the slot's owner still holds its record lock. Needs the lock. */
bool sim_proc_alive(struct sim_handle *handle, uint32_t proc);

/* The process id of a slot's owner as our own process namespace numbers it; 0 when it cannot be seen from here. */
uint32_t sim_proc_pid(const struct sim_handle *handle, uint32_t proc);

/* A record lock of one byte of the node file: fcntl's commands and types. 0 or a negative errno. */
struct flock;
int sim_record_lock(int fd, int command, int64_t at, short type, struct flock *out);

/* Drops what a forked child has inherited: it must not keep its parent's record lock alive. */
void sim_forget(struct sim_handle *handle);

/* Lets waiters of one process look again (something other than time has changed). Needs the lock. */
void sim_notify(struct sim_handle *handle, uint32_t proc);

#endif
