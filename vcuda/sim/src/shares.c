#define _GNU_SOURCE
#include "shares.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One byte of the file per share, locked by the open file descriptions that were exported for it. */
#define EXPORT_BASE ((off_t)1 << 42)
/* Where the first share's bytes begin: beyond the state. */
#define DATA_BASE (1ull << 32)
#define DATA_END (1ull << 43)

static bool exported(const struct sim_handle *handle, uint32_t index) {
  struct flock probe;
  return sim_record_lock(handle->fd, F_OFD_GETLK, EXPORT_BASE + (off_t)index, F_WRLCK, &probe) == 0 && probe.l_type != F_UNLCK;
}

static uint64_t *charged(struct sim_node *node, const struct sim_share *share) {
  return &node->procs[share->owner].bytes[share->card][share->class];
}

/* Someone else who holds it, SIM_NONE when nobody does. */
static uint32_t next_owner(const struct sim_node *node, const struct sim_share *share) {
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (share->holds[i]) return i;
  }
  return SIM_NONE;
}

static void free_share(struct sim_handle *handle, struct sim_share *share) {
  fallocate(handle->map_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)share->offset, (off_t)share->bytes);
  share->serial = 0;
}

/* The charged process has let go: another one is charged, or nobody, or the memory is gone. */
static void pass_on(struct sim_handle *handle, struct sim_share *share) {
  struct sim_node *node = handle->node;
  uint64_t *old = charged(node, share);
  *old -= share->bytes < *old ? share->bytes : *old;
  share->owner = next_owner(node, share);
  if (share->owner != SIM_NONE) *charged(node, share) += share->bytes;
  else if (!exported(handle, (uint32_t)(share - node->shares))) free_share(handle, share);
}

static uint64_t data_end(const struct sim_node *node) {
  uint64_t end = DATA_BASE;
  for (uint32_t i = 0; i < node->share_high; i++) {
    const struct sim_share *share = &node->shares[i];
    if (share->serial && share->offset + share->bytes > end) end = share->offset + share->bytes;
  }
  return end;
}

static int extend(const struct sim_handle *handle, uint64_t end) {
  struct stat status;
  if (end > DATA_END) return -ENOSPC;
  if (fstat(handle->map_fd, &status) < 0) return -errno;
  return (uint64_t)status.st_size >= end || ftruncate(handle->map_fd, (off_t)end) == 0 ? 0 : -errno;
}

static int new_locked(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes, uint32_t *index) {
  struct sim_node *node = handle->node;
  uint64_t offset = data_end(node);
  uint32_t i = 0;
  int result = extend(handle, offset + bytes);
  while (i < node->share_high && node->shares[i].serial) i++;
  if (result < 0 || i == SIM_MAX_SHARES) return result < 0 ? result : -ENOSPC;
  if (i == node->share_high) node->share_high++;
  node->shares[i] = (struct sim_share){.serial = ++node->share_serial, .offset = offset, .bytes = bytes, .card = card,
                                       .class = (uint32_t)class, .owner = handle->proc};
  node->shares[i].holds[handle->proc] = 1;
  *index = i;
  return 0;
}

int sim_share_new(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes, uint32_t *index) {
  int result;
  sim_lock(handle);
  result = new_locked(handle, card, class, bytes, index);
  sim_unlock(handle);
  return result;
}

void sim_share_cancel(struct sim_handle *handle, uint32_t index) {
  sim_lock(handle);
  free_share(handle, &handle->node->shares[index]);
  sim_unlock(handle);
}

int sim_share_join(struct sim_handle *handle, struct sim_share_name name, struct sim_share *out) {
  struct sim_share *share = &handle->node->shares[name.index];
  int result = -ENOENT;
  if (name.index >= SIM_MAX_SHARES || name.serial == 0) return -ENOENT;
  sim_lock(handle);
  sim_reclaim(handle);
  if (share->serial == name.serial) {
    share->holds[handle->proc]++;
    if (share->owner == SIM_NONE) {
      share->owner = handle->proc;
      *charged(handle->node, share) += share->bytes;
    }
    *out = *share;
    result = 0;
  }
  sim_unlock(handle);
  return result;
}

void sim_share_drop(struct sim_handle *handle, uint32_t index) {
  struct sim_share *share = &handle->node->shares[index];
  sim_lock(handle);
  if (--share->holds[handle->proc] == 0 && share->owner == handle->proc) pass_on(handle, share);
  sim_unlock(handle);
}

void *sim_share_map(const struct sim_handle *handle, uint64_t file_offset, uint64_t bytes, void *fixed) {
  int flags = MAP_SHARED | MAP_NORESERVE | (fixed ? MAP_FIXED : 0);
  void *address = mmap(fixed, bytes, PROT_NONE, flags, handle->map_fd, (off_t)file_offset);
  return address == MAP_FAILED ? NULL : address;
}

/* A descriptor of the node file, opened anew, that stands at `place`. */
static int open_at(const struct sim_handle *handle, uint64_t place) {
  char path[64];
  int fd, error;
  snprintf(path, sizeof path, "/proc/self/fd/%d", handle->map_fd);
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && lseek(fd, (off_t)place, SEEK_SET) == (off_t)place) return fd;
  error = errno;
  if (fd >= 0) close(fd);
  return -error;
}

/* Where such a descriptor stands; 0 when it is none. */
static uint64_t place_of(const struct sim_handle *handle, int fd) {
  struct stat theirs, ours;
  off_t at;
  if (fstat(fd, &theirs) < 0 || fstat(handle->map_fd, &ours) < 0) return 0;
  if (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev) return 0;
  at = lseek(fd, 0, SEEK_CUR);
  return at > 0 ? (uint64_t)at : 0;
}

/* It stands at the memory's place and holds the share's byte: with a read lock, of which several exports may have one each. */
int sim_share_export(struct sim_handle *handle, uint32_t index) {
  int fd = open_at(handle, handle->node->shares[index].offset);
  int result = fd < 0 ? fd : sim_record_lock(fd, F_OFD_SETLK, EXPORT_BASE + (off_t)index, F_RDLCK, NULL);
  if (result < 0 && fd >= 0) close(fd);
  return result < 0 ? result : fd;
}

int sim_share_of_fd(struct sim_handle *handle, int fd, struct sim_share_name *name) {
  struct sim_node *node = handle->node;
  uint64_t place = place_of(handle, fd);
  int result = -EINVAL;
  sim_lock(handle);
  for (uint32_t i = 0; place >= DATA_BASE && i < node->share_high && result < 0; i++) {
    if (!node->shares[i].serial || node->shares[i].offset != place) continue;
    *name = (struct sim_share_name){.serial = node->shares[i].serial, .index = i};
    result = 0;
  }
  sim_unlock(handle);
  return result;
}

int sim_share_export_card(struct sim_handle *handle, uint32_t card) { return open_at(handle, card + 1); }

int sim_share_card_of_fd(struct sim_handle *handle, int fd, uint32_t *card) {
  uint64_t place = place_of(handle, fd);
  if (place == 0 || place > handle->node->card_count) return -EINVAL;
  *card = (uint32_t)place - 1;
  return 0;
}

void sim_share_bury(struct sim_handle *handle, uint32_t proc) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->share_high; i++) {
    struct sim_share *share = &node->shares[i];
    share->holds[proc] = 0;
    if (share->serial && share->owner == proc) pass_on(handle, share);
  }
}

void sim_share_sweep(struct sim_handle *handle) {
  struct sim_node *node = handle->node;
  for (uint32_t i = 0; i < node->share_high; i++) {
    struct sim_share *share = &node->shares[i];
    if (share->serial && share->owner == SIM_NONE && !exported(handle, i)) free_share(handle, share);
  }
}

uint64_t sim_share_unowned(const struct sim_node *node, uint32_t card) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < node->share_high; i++) {
    const struct sim_share *share = &node->shares[i];
    if (share->serial && share->owner == SIM_NONE && share->card == card) sum += share->bytes;
  }
  return sum;
}
