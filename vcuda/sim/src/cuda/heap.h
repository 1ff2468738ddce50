/*
 * Device memory as the driver hands it out: requests below 1 MiB are cut from 2 MiB blocks in steps of 512 bytes, larger
 * ones are rounded up to 2 MiB. What a card is charged is therefore always a multiple of 2 MiB. The memory is ordinary
 * private memory of the process without reservation: untouched pages cost no RAM.
 */
#ifndef TESSERA_SIM_HEAP_H
#define TESSERA_SIM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../books.h"
#include "../shares.h"

#define HEAP_PAGE (2ull * 1024 * 1024)
#define HEAP_GRAIN 512ull

struct range {
  uint64_t base, size;      /* size: as asked for */
  uint64_t lead;            /* bytes mapped before base: an opened allocation that was cut from a block */
  uint64_t charged;         /* bytes charged to the card for this range alone, 0 for a part of a block */
  struct block *block;      /* the block that it was cut from, or NULL */
  uint32_t share;           /* 1 + index of the share that its bytes lie in; 0: private memory */
  const void *owner;        /* context, or pool */
  uint32_t card;
  uint32_t class;           /* enum sim_class */
  uint64_t id;
  int host;                 /* page-locked host memory: 1 allocated, 2 registered by the program */
  unsigned flags;
};

/* 0, -ENOMEM (card or host), -EINVAL. On success *out is the address. Card SIM_NONE: memory of the host, charged to no card. */
int heap_alloc(struct sim_handle *node, const void *owner, uint32_t card, enum sim_class class, uint64_t bytes, uint64_t *out);
/* -ENOENT when the address is no allocation's beginning. */
int heap_free(struct sim_handle *node, uint64_t address);
void heap_free_all(struct sim_handle *node, const void *owner);

/* Memory between processes: a name under which others can open the memory that holds `address`. 0 or a negative errno; -ENOENT when
 * the address is no allocation's beginning. */
struct heap_name {
  struct sim_share_name share;
  uint64_t offset; /* of the allocation inside the share */
  uint64_t size;   /* of the allocation; 0 when opening: the whole share */
  uint32_t card, class;
};
int heap_share(struct sim_handle *node, uint64_t address, struct heap_name *out);
/* Opens it here, as a range of its own that `heap_free` closes; -ENOENT when it is gone. */
int heap_open(struct sim_handle *node, const void *owner, const struct heap_name *name, uint64_t *out);

/* What the card is charged for all that the owner holds: whole pages. */
uint64_t heap_backing(const void *owner);

/* The range that holds the address. */
bool heap_find(uint64_t address, struct range *out);
/* True when the bytes lie wholly in device memory (possibly in several ranges side by side). */
bool heap_covers(uint64_t address, uint64_t bytes);
/* Adds and removes ranges that the heap did not allocate (host memory, mapped virtual memory). */
int heap_note(const struct range *range);
bool heap_forget(uint64_t base, struct range *out);

/* Address space without pages behind it, aligned; NULL when there is none. */
void *heap_reserve(uint64_t bytes, uint64_t alignment, void *hint);
void heap_unreserve(void *address, uint64_t bytes);

/* Zero pages hold no RAM: gives them back inside [address, address + bytes) of device memory. */
void heap_zero(uint64_t address, uint64_t bytes);

#endif
