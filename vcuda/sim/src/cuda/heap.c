#define _GNU_SOURCE
#include "heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRAINS (HEAP_PAGE / HEAP_GRAIN)
#define LARGE (HEAP_PAGE / 2)

struct block {
  uint64_t base;
  const void *owner;
  uint32_t card, class, share;
  uint32_t used; /* grains */
  struct block *next;
  unsigned char taken[GRAINS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* sorted by base */
static size_t range_count, range_room;
static struct block *blocks;
static uint64_t next_id;

static size_t lower_bound(uint64_t address) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges[middle].base < address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static int insert(const struct range *range) {
  size_t at = lower_bound(range->base);
  if (range_count == range_room) {
    size_t room = range_room ? range_room * 2 : 256;
    struct range *grown = realloc(ranges, room * sizeof *ranges);
    if (!grown) return -ENOMEM;
    ranges = grown;
    range_room = room;
  }
  memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof *ranges);
  ranges[at] = *range;
  ranges[at].id = ++next_id;
  range_count++;
  return 0;
}

static bool take_out(uint64_t base, struct range *out) {
  size_t at = lower_bound(base);
  if (at == range_count || ranges[at].base != base) return false;
  *out = ranges[at];
  range_count--;
  memmove(&ranges[at], &ranges[at + 1], (range_count - at) * sizeof *ranges);
  return true;
}

void *heap_reserve(uint64_t bytes, uint64_t alignment, void *hint) {
  char *raw = mmap(hint, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *aligned;
  if (raw == MAP_FAILED) return NULL;
  aligned = (char *)(((uintptr_t)raw + alignment - 1) / alignment * alignment);
  if (aligned > raw) munmap(raw, (size_t)(aligned - raw));
  munmap(aligned + bytes, (size_t)(raw + alignment - aligned));
  return aligned;
}

void heap_unreserve(void *address, uint64_t bytes) { munmap(address, bytes); }

static void *map_pages(uint64_t bytes) {
  void *address = heap_reserve(bytes, HEAP_PAGE, NULL);
  if (!address) return NULL;
  if (mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0) return address;
  munmap(address, bytes);
  return NULL;
}

static int alloc_pages(struct sim_handle *node, uint32_t card, enum sim_class class, uint64_t bytes, void **out) {
  int result = card == SIM_NONE ? 0 : sim_charge(node, card, class, bytes);
  if (result < 0) return result;
  *out = map_pages(bytes);
  if (*out) return 0;
  if (card != SIM_NONE) sim_discharge(node, card, class, bytes);
  return -ENOMEM;
}

static uint32_t find_gap(const struct block *block, uint32_t grains) {
  uint32_t run = 0;
  for (uint32_t i = 0; i < GRAINS; i++) {
    run = block->taken[i] ? 0 : run + 1;
    if (run == grains) return i + 1 - grains;
  }
  return SIM_NONE;
}

static struct block *new_block(struct sim_handle *node, const void *owner, uint32_t card, enum sim_class class, int *result) {
  struct block *block = calloc(1, sizeof *block);
  void *pages;
  *result = block ? alloc_pages(node, card, class, HEAP_PAGE, &pages) : -ENOMEM;
  if (*result < 0) {
    free(block);
    return NULL;
  }
  block->base = (uint64_t)(uintptr_t)pages;
  block->owner = owner;
  block->card = card;
  block->class = (uint32_t)class;
  block->next = blocks;
  blocks = block;
  return block;
}

/* The pages leave the card, or this process's hold of them ends. */
static void drop_pages(struct sim_handle *node, uint64_t base, uint64_t bytes, uint32_t share, uint32_t card, uint32_t class) {
  munmap((void *)(uintptr_t)base, bytes);
  if (share) sim_share_drop(node, share - 1);
  else if (card != SIM_NONE) sim_discharge(node, card, (enum sim_class)class, bytes);
}

static void drop_block(struct sim_handle *node, struct block *block) {
  struct block **link = &blocks;
  while (*link != block) link = &(*link)->next;
  *link = block->next;
  drop_pages(node, block->base, HEAP_PAGE, block->share, block->card, block->class);
  free(block);
}

static int alloc_small(struct sim_handle *node, struct range *range) {
  uint32_t grains = (uint32_t)((range->size + HEAP_GRAIN - 1) / HEAP_GRAIN);
  struct block *block = blocks;
  uint32_t at = SIM_NONE;
  int result = 0;

  for (; block; block = block->next) {
    if (block->owner != range->owner || block->class != range->class || GRAINS - block->used < grains) continue;
    at = find_gap(block, grains);
    if (at != SIM_NONE) break;
  }
  if (!block) {
    block = new_block(node, range->owner, range->card, (enum sim_class)range->class, &result);
    if (!block) return result;
    at = 0;
  }
  range->base = block->base + at * HEAP_GRAIN;
  range->block = block;
  result = insert(range);
  if (result == 0) {
    memset(block->taken + at, 1, grains);
    block->used += grains;
  } else if (block->used == 0) {
    drop_block(node, block);
  }
  return result;
}

static int alloc_large(struct sim_handle *node, struct range *range) {
  uint64_t bytes = (range->size + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE;
  void *pages;
  int result = alloc_pages(node, range->card, (enum sim_class)range->class, bytes, &pages);
  if (result < 0) return result;
  range->base = (uint64_t)(uintptr_t)pages;
  range->charged = bytes;
  result = insert(range);
  if (result < 0) {
    drop_pages(node, (uint64_t)(uintptr_t)pages, bytes, 0, range->card, range->class);
  }
  return result;
}

int heap_alloc(struct sim_handle *node, const void *owner, uint32_t card, enum sim_class class, uint64_t bytes, uint64_t *out) {
  struct range range = {.size = bytes, .owner = owner, .card = card, .class = (uint32_t)class, .host = card == SIM_NONE};
  int result;
  if (bytes == 0) return -EINVAL;
  if (bytes > (1ull << 46)) return -ENOMEM;
  pthread_mutex_lock(&lock);
  result = bytes < LARGE ? alloc_small(node, &range) : alloc_large(node, &range);
  pthread_mutex_unlock(&lock);
  if (result == 0) *out = range.base;
  return result;
}

static void release(struct sim_handle *node, const struct range *range) {
  struct block *block = range->block;
  uint32_t at, grains;
  if (!block) {
    drop_pages(node, range->base - range->lead, range->charged, range->share, range->card, range->class);
    return;
  }
  at = (uint32_t)((range->base - block->base) / HEAP_GRAIN);
  grains = (uint32_t)((range->size + HEAP_GRAIN - 1) / HEAP_GRAIN);
  memset(block->taken + at, 0, grains);
  block->used -= grains;
  if (block->used == 0) drop_block(node, block);
}

int heap_free(struct sim_handle *node, uint64_t address) {
  struct range range;
  size_t at;
  int result = -ENOENT;
  pthread_mutex_lock(&lock);
  at = lower_bound(address);
  if (at < range_count && ranges[at].base == address && (ranges[at].block || ranges[at].charged) && take_out(address, &range)) {
    release(node, &range);
    result = 0;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

void heap_free_all(struct sim_handle *node, const void *owner) {
  size_t kept = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < range_count; i++) {
    if (ranges[i].owner == owner && (ranges[i].block || ranges[i].charged)) release(node, &ranges[i]);
    else ranges[kept++] = ranges[i];
  }
  range_count = kept;
  pthread_mutex_unlock(&lock);
}

uint64_t heap_backing(const void *owner) {
  uint64_t bytes = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < range_count; i++) {
    if (ranges[i].owner == owner) bytes += ranges[i].charged;
  }
  for (const struct block *block = blocks; block; block = block->next) {
    if (block->owner == owner) bytes += HEAP_PAGE;
  }
  pthread_mutex_unlock(&lock);
  return bytes;
}

bool heap_find(uint64_t address, struct range *out) {
  size_t at;
  bool found = false;
  pthread_mutex_lock(&lock);
  at = lower_bound(address);
  if (at == range_count || ranges[at].base != address) at--; /* wraps when at is 0: then it is not below range_count */
  if (at < range_count && address - ranges[at].base < ranges[at].size) {
    *out = ranges[at];
    found = true;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

bool heap_covers(uint64_t address, uint64_t bytes) {
  uint64_t end = address + bytes;
  struct range range;
  if (end < address) return false;
  while (address < end) {
    if (!heap_find(address, &range) || range.host == 2) return false;
    address = range.base + range.size;
  }
  return true;
}

int heap_note(const struct range *range) {
  int result;
  pthread_mutex_lock(&lock);
  result = insert(range);
  pthread_mutex_unlock(&lock);
  return result;
}

bool heap_forget(uint64_t base, struct range *out) {
  size_t at;
  bool found = false;
  pthread_mutex_lock(&lock);
  at = lower_bound(base);
  if (at < range_count && ranges[at].base == base && !ranges[at].block && !ranges[at].charged) found = take_out(base, out);
  pthread_mutex_unlock(&lock);
  return found;
}

/* A private anonymous page that was given back reads as zeros again. */
void heap_zero(uint64_t address, uint64_t bytes) {
  uint64_t first = (address + 4095) / 4096 * 4096;
  uint64_t last = (address + bytes) / 4096 * 4096;
  int advice = MADV_DONTNEED;
  struct range range;
  if (last <= first || bytes < 16 * 4096) {
    memset((void *)(uintptr_t)address, 0, bytes);
    return;
  }
  memset((void *)(uintptr_t)address, 0, first - address);
  memset((void *)(uintptr_t)last, 0, address + bytes - last);
  if (heap_find(address, &range) && (range.class == SIM_VMM || range.share || (range.block && range.block->share))) advice = MADV_REMOVE; /* shared with other mappings of it */
  if (madvise((void *)(uintptr_t)first, last - first, advice) < 0) memset((void *)(uintptr_t)first, 0, last - first);
}

/* Copies what is there of private memory: pages that nobody has touched stay without RAM. */
static void copy_resident(char *to, const char *from, uint64_t bytes) {
  unsigned char present[4096];
  for (uint64_t at = 0; at < bytes; at += sizeof present * 4096) {
    uint64_t part = bytes - at < sizeof present * 4096 ? bytes - at : sizeof present * 4096;
    if (mincore((void *)(uintptr_t)(from + at), part, present) < 0) continue;
    for (uint64_t page = 0; page < part / 4096; page++) {
      if (present[page] & 1) memcpy(to + at + page * 4096, from + at + page * 4096, 4096);
    }
  }
}

/* Private pages become pages of a share, at the same address and with the same contents. */
static int share_pages(struct sim_handle *node, uint64_t base, uint64_t bytes, uint32_t card, uint32_t class, uint32_t *share) {
  uint32_t index;
  char *fresh;
  int result = sim_share_new(node, card, (enum sim_class)class, bytes, &index);
  if (result < 0) return result;
  fresh = sim_share_map(node, node->node->shares[index].offset, bytes, NULL);
  if (!fresh || mprotect(fresh, bytes, PROT_READ | PROT_WRITE) < 0) {
    sim_share_cancel(node, index);
    return -ENOMEM;
  }
  copy_resident(fresh, (const char *)(uintptr_t)base, bytes);
  if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)base) == MAP_FAILED) {
    munmap(fresh, bytes);
    sim_share_cancel(node, index);
    return -ENOMEM;
  }
  *share = index + 1;
  return 0;
}

int heap_share(struct sim_handle *node, uint64_t address, struct heap_name *out) {
  struct range *range;
  int result = -ENOENT;
  size_t at;
  pthread_mutex_lock(&lock);
  at = lower_bound(address);
  range = &ranges[at];
  if (at < range_count && range->base == address && (range->block || range->charged)) {
    struct block *block = range->block;
    uint32_t *share = block ? &block->share : &range->share;
    uint64_t base = block ? block->base : range->base;
    result = *share ? 0 : share_pages(node, base, block ? HEAP_PAGE : range->charged, range->card, range->class, share);
    if (result == 0) {
      *out = (struct heap_name){.share = {.serial = node->node->shares[*share - 1].serial, .index = *share - 1},
                                .offset = address - base, .size = range->size, .card = range->card, .class = range->class};
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

int heap_open(struct sim_handle *node, const void *owner, const struct heap_name *name, uint64_t *out) {
  struct sim_share share;
  struct range range;
  void *base = NULL;
  int result = sim_share_join(node, name->share, &share);
  if (result < 0) return result;
  if (name->offset < share.bytes) base = heap_reserve(share.bytes, HEAP_PAGE, NULL);
  range = (struct range){.base = (uint64_t)(uintptr_t)base + name->offset, .size = name->size ? name->size : share.bytes,
                         .lead = name->offset, .charged = share.bytes, .owner = owner, .card = share.card, .class = share.class,
                         .share = name->share.index + 1};
  if (!base || !sim_share_map(node, share.offset, share.bytes, base) || mprotect(base, share.bytes, PROT_READ | PROT_WRITE) < 0 ||
      heap_note(&range) < 0) {
    if (base) munmap(base, share.bytes);
    sim_share_drop(node, name->share.index);
    return -ENOMEM;
  }
  *out = range.base;
  return 0;
}
