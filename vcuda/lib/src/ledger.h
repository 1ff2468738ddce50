/* The claim's memory books: reserve before asking the driver, release after it let go, give back what the dead held. No CUDA types.
 *
 * While no operation is under way reserved_bytes = sum of all slots and orphans; never above the limit; vcuda/ABI.md states the protocol. */
#ifndef VCUDA_LEDGER_H
#define VCUDA_LEDGER_H

#include "config.h"

/* Take `bytes` for this process. 0; -ENOMEM over the limit, counted as denied; or another -errno when there is no slot. */
int ledger_reserve(struct region *region, int device, enum vcuda_class kind, uint64_t bytes);

/* Take `bytes` that the driver has given already and that cannot be refused any more. 0 or -errno when there is no slot. */
int ledger_force(struct region *region, int device, enum vcuda_class kind, uint64_t bytes);

/* Give `bytes` back. */
void ledger_release(struct region *region, int device, enum vcuda_class kind, uint64_t bytes);

/* Memory between processes of the claim: charged to the one who exported it, and kept in the books as `orphaned` when that one lets go
 * while others hold on. Nobody can tell whose export an import is, so orphans are what was exported, but no more than what is imported:
 * never too little.
 *
 * Of the bytes that this process holds, so many may be opened by others from now on; negative: no longer ours. */
void ledger_export(struct region *region, int device, int64_t bytes);
/* ledger_release for bytes that were exported. */
void ledger_release_exported(struct region *region, int device, enum vcuda_class kind, uint64_t bytes);
/* About to open something of unknown size on an unknown card (+1); it is known now (-1). In between no orphan is let go. */
void ledger_importing(struct region *region, int change);
/* Opened. False when the claim does not pay for so much already: then the caller reserves it like memory of its own. */
bool ledger_import(struct region *region, int device, uint64_t bytes);
/* Closed again. */
void ledger_import_end(struct region *region, int device, uint64_t bytes);

/* Give back what dead processes held. Called when room is needed; cheap while nobody died. */
void ledger_reclaim(struct region *region);

/* Bytes of the claim's living processes on the device now, and of what is being asked for at this instant. Changes nothing. */
uint64_t ledger_used(const struct region *region, int device);

/* Bytes of one slot on the device. */
uint64_t ledger_slot_bytes(const struct region *region, int slot, int device);

/* In the child of a fork: it owns nothing. */
void ledger_after_fork(struct region *region);

#endif
