/*
 * Memory that several processes hold at once. Its bytes lie in the node file behind the state, so that each can map them, and it stays
 * on the card until the last holder of the last process has let go and the last exported descriptor is closed. It is charged to one
 * holder: to the one who made it, and when that one is gone to another.
 */
#ifndef TESSERA_SIM_SHARES_H
#define TESSERA_SIM_SHARES_H

#include "node.h"

/* Names a share for other processes. The serial number tells it from a later one at the same index. */
struct sim_share_name {
  uint64_t serial;
  uint32_t index, pad;
};

/* Makes a share of `bytes` (whole pages) that this process holds once and was charged for already. -ENOSPC, or an error of the file. */
int sim_share_new(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes, uint32_t *index);
/* Takes that back: the caller keeps the charge. */
void sim_share_cancel(struct sim_handle *handle, uint32_t index);

/* One more hold of this process. -ENOENT when there is no such share any more; else a copy of what it is goes to *out. */
int sim_share_join(struct sim_handle *handle, struct sim_share_name name, struct sim_share *out);
/* One hold less; the bytes leave the card with the last one. */
void sim_share_drop(struct sim_handle *handle, uint32_t index);

/* Memory of a share, mapped without access. NULL when the host cannot. */
void *sim_share_map(const struct sim_handle *handle, uint64_t file_offset, uint64_t bytes, void *fixed);

/* An open descriptor that keeps the share on the card for as long as it, or a copy of it anywhere, is open. A negative errno. */
int sim_share_export(struct sim_handle *handle, uint32_t index);
/* The share that such a descriptor stands for; -EINVAL when it is none of this node. */
int sim_share_of_fd(struct sim_handle *handle, int fd, struct sim_share_name *name);

/* The same for a descriptor that names nothing but a card. */
int sim_share_export_card(struct sim_handle *handle, uint32_t card);
int sim_share_card_of_fd(struct sim_handle *handle, int fd, uint32_t *card);

/* Under the node's lock: a process is dead; descriptors may have been closed; bytes of shares that no process holds. */
void sim_share_bury(struct sim_handle *handle, uint32_t proc);
void sim_share_sweep(struct sim_handle *handle);
uint64_t sim_share_unowned(const struct sim_node *node, uint32_t card);

#endif
