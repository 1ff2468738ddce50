/*
 * Memory limits of control groups, as NVIDIA's driver has them from branch 615 on: what a group's processes may hold of a
 * card together, whatever library they come through. A group is known by the number of its folder (the inode), which is
 * the same for everybody who can see the folder.
 *
 * As the driver's own accounting has it ("misc"): the nearest limited group above a process counts, limits do not nest.
 */
#ifndef TESSERA_SIM_WALLS_H
#define TESSERA_SIM_WALLS_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_MAX_WALLS = 256, SIM_GROUP_DEPTH = 12, SIM_WALL_PROCS = 256 };
#define SIM_NO_LIMIT UINT64_MAX

struct sim_wall {
  uint64_t group; /* 0: free */
  uint32_t card, pad;
  uint64_t soft, hard; /* bytes */
};

/* Part of the node state, guarded by its lock. */
struct sim_walls {
  uint32_t high, pad;
  struct sim_wall table[SIM_MAX_WALLS];
  uint64_t groups[SIM_WALL_PROCS][SIM_GROUP_DEPTH]; /* of each process slot, its own group first; 0: no more are seen */
};

struct sim_handle;

/* The number of a control group's folder. -ENOENT, -EINVAL for what is no folder of a version-2 hierarchy. */
int sim_group_of(const char *folder, uint64_t *group);

/* Hard SIM_NO_LIMIT and soft 0 take the limit away. -ENOSPC. Takes the lock. */
int sim_wall_set(struct sim_handle *handle, uint64_t group, uint32_t card, uint64_t soft, uint64_t hard);
/* The limit of this very group (soft 0, hard SIM_NO_LIMIT where it has none), and what its processes hold. Takes the lock. */
void sim_wall_get(struct sim_handle *handle, uint64_t group, uint32_t card, struct sim_wall *out, uint64_t *used);

/* What the calling process may still take of a card beside its group's limit. Needs the lock. */
uint64_t sim_wall_room(struct sim_handle *handle, uint32_t card);
/* Total and free as the calling process is told them. Needs the lock. */
void sim_wall_cap(struct sim_handle *handle, uint32_t card, uint64_t *total, uint64_t *available);

#endif
