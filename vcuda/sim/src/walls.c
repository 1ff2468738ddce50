#define _GNU_SOURCE
#include "walls.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "books.h"

#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h: CGROUP2_SUPER_MAGIC */

_Static_assert((int)SIM_WALL_PROCS == (int)SIM_MAX_PROCS, "one list of groups for each process slot");

int sim_group_of(const char *folder, uint64_t *group) {
  struct statfs system;
  struct stat status;
  if (stat(folder, &status) < 0) return -ENOENT;
  if (!S_ISDIR(status.st_mode) || statfs(folder, &system) < 0 || system.f_type != CGROUP2_MAGIC) return -EINVAL;
  *group = status.st_ino;
  return 0;
}

/* Where the version-2 hierarchy is mounted, and which of its groups is the mount's root. */
static bool find_mount(char *root, char *point, size_t size) {
  char line[2 * PATH_MAX + 256], format[48];
  bool found = false;
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (!file) return false;
  snprintf(format, sizeof format, "%%*s %%*s %%*s %%%zus %%%zus", size - 1, size - 1);
  while (!found && fgets(line, sizeof line, file)) { /* id parent device root point options … - type … */
    found = strstr(line, " - cgroup2 ") && sscanf(line, format, root, point) == 2;
  }
  fclose(file);
  return found;
}

/* The group's path of this process, from the root of what it can see ("0::/…"). */
static bool find_own_path(char *path, size_t size) {
  char line[PATH_MAX + 8];
  bool found = false;
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return false;
  while (!found && fgets(line, sizeof line, file)) {
    found = strncmp(line, "0::", 3) == 0;
    if (found) snprintf(path, size, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
  }
  fclose(file);
  return found;
}

/* The calling process's groups as they are now: it may have been moved. Nothing where it cannot see the hierarchy. */
static void learn_groups(uint64_t groups[SIM_GROUP_DEPTH]) {
  char root[PATH_MAX], point[PATH_MAX], own[PATH_MAX], folder[2 * PATH_MAX];
  const char *below = own;
  size_t top;
  memset(groups, 0, SIM_GROUP_DEPTH * sizeof groups[0]);
  if (!find_mount(root, point, sizeof root) || !find_own_path(own, sizeof own)) return;
  if (strcmp(root, "/") != 0 && strncmp(own, root, strlen(root)) == 0) below += strlen(root);
  top = strlen(point);
  snprintf(folder, sizeof folder, "%s%s", point, strcmp(below, "/") == 0 ? "" : below);
  for (int depth = 0; depth < SIM_GROUP_DEPTH; depth++) {
    char *slash;
    if (sim_group_of(folder, &groups[depth]) < 0) break;
    slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < top) break;
    *slash = '\0';
  }
}

static struct sim_wall *find(struct sim_walls *walls, uint64_t group, uint32_t card) {
  for (uint32_t i = 0; i < walls->high; i++) {
    if (walls->table[i].group == group && walls->table[i].card == card) return &walls->table[i];
  }
  return NULL;
}

static struct sim_wall *nearest(struct sim_walls *walls, uint32_t proc, uint32_t card) {
  for (int depth = 0; depth < SIM_GROUP_DEPTH && walls->groups[proc][depth]; depth++) {
    struct sim_wall *wall = find(walls, walls->groups[proc][depth], card);
    if (wall) return wall;
  }
  return NULL;
}

static uint64_t used_behind(struct sim_node *node, const struct sim_wall *wall) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (node->procs[i].live && nearest(&node->walls, i, wall->card) == wall) sum += sim_proc_used(&node->procs[i], wall->card);
  }
  return sum;
}

int sim_wall_set(struct sim_handle *handle, uint64_t group, uint32_t card, uint64_t soft, uint64_t hard) {
  struct sim_walls *walls = &handle->node->walls;
  struct sim_wall *wall;
  int result = 0;
  sim_lock(handle);
  wall = find(walls, group, card);
  if (hard == SIM_NO_LIMIT && soft == 0) {
    if (wall) wall->group = 0;
  } else {
    if (!wall) wall = find(walls, 0, 0);
    if (!wall && walls->high < SIM_MAX_WALLS) wall = &walls->table[walls->high++];
    if (wall) *wall = (struct sim_wall){.group = group, .card = card, .soft = soft, .hard = hard};
    else result = -ENOSPC;
  }
  sim_unlock(handle);
  return result;
}

static bool is_within(const struct sim_walls *walls, uint32_t proc, uint64_t group) {
  for (int depth = 0; depth < SIM_GROUP_DEPTH; depth++) {
    if (walls->groups[proc][depth] == group) return true;
  }
  return false;
}

void sim_wall_get(struct sim_handle *handle, uint64_t group, uint32_t card, struct sim_wall *out, uint64_t *used) {
  struct sim_node *node = handle->node;
  struct sim_wall *wall;
  sim_lock(handle);
  sim_reclaim(handle);
  wall = find(&node->walls, group, card);
  *out = wall ? *wall : (struct sim_wall){.group = group, .card = card, .hard = SIM_NO_LIMIT};
  *used = 0;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (node->procs[i].live && is_within(&node->walls, i, group)) *used += sim_proc_used(&node->procs[i], card);
  }
  sim_unlock(handle);
}

uint64_t sim_wall_room(struct sim_handle *handle, uint32_t card) {
  struct sim_walls *walls = &handle->node->walls;
  struct sim_wall *wall;
  uint64_t used;
  if (handle->proc == SIM_NONE) return SIM_NO_LIMIT;
  learn_groups(walls->groups[handle->proc]);
  wall = nearest(walls, handle->proc, card);
  if (!wall || wall->hard == SIM_NO_LIMIT) return SIM_NO_LIMIT;
  used = used_behind(handle->node, wall);
  return used < wall->hard ? wall->hard - used : 0;
}

void sim_wall_cap(struct sim_handle *handle, uint32_t card, uint64_t *total, uint64_t *available) {
  uint64_t room = sim_wall_room(handle, card);
  struct sim_wall *wall = room == SIM_NO_LIMIT ? NULL : nearest(&handle->node->walls, handle->proc, card);
  if (!wall) return;
  if (wall->hard < *total) *total = wall->hard;
  if (room < *available) *available = room;
}
