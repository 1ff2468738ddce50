#include "pool.h"

#include <stdlib.h>

#include "graph_memory.h"
#include "heap.h"
#include "impl.h"
#include "ipc.h"
#include "transfer.h"

enum state { USED, PENDING, IDLE };

struct chunk {
  struct chunk *next;
  CUmemoryPool pool; /* NULL: cuMemAlloc memory that is freed in stream order */
  uint64_t base, bytes;
  enum state state;
  uint32_t stream; /* PENDING: free when that stream has come to position */
  uint64_t stream_id, position;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the heap's and the node's */
static struct chunk *chunks;
static CUmemoryPool defaults[SIM_MAX_CARDS], present[SIM_MAX_CARDS], graphs[SIM_MAX_CARDS]; /* by visible device */

CUmemoryPool pool_make(int device, uint64_t max_bytes) {
  CUmemoryPool pool = handle_new(KIND_POOL, sizeof *pool);
  if (!pool) return NULL;
  pool->device = device;
  pool->card = device < 0 ? SIM_NONE : driver.visible[device];
  pool->max_bytes = max_bytes;
  pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
  return pool;
}

static CUmemoryPool default_pool(int device) {
  if (!defaults[device]) defaults[device] = pool_make(device, 0);
  return defaults[device];
}

/* It lets go of nothing by itself. */
CUmemoryPool pool_of_graphs(int device) {
  pthread_mutex_lock(&lock);
  if (!graphs[device]) graphs[device] = pool_make(device, 0);
  if (graphs[device]) graphs[device]->threshold = UINT64_MAX;
  pthread_mutex_unlock(&lock);
  return graphs[device];
}

static CUmemoryPool present_pool(int device) { return present[device] ? present[device] : default_pool(device); }

static void count_used(struct chunk *chunk, bool up) {
  CUmemoryPool pool = chunk->pool;
  if (!pool) return;
  pool->used = up ? pool->used + chunk->bytes : pool->used - chunk->bytes;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
}

static void drop_chunk(struct chunk **link) {
  struct chunk *chunk = *link;
  *link = chunk->next;
  heap_free(&driver.node, chunk->base);
  if (chunk->pool) chunk->pool->reserved = heap_backing(chunk->pool);
  free(chunk);
}

/* A stream that is gone has done all its work. */
static bool come_true(const struct chunk *chunk) {
  const struct sim_stream *stream = &driver.node.node->streams[chunk->stream];
  return stream->ctx == SIM_NONE || stream->head >= chunk->position;
}

static void settle(bool release) {
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
    if (chunk->state != PENDING || !come_true(chunk)) continue;
    chunk->state = IDLE;
  }
  sim_unlock(&driver.node);
  for (struct chunk **link = &chunks; *link;) {
    struct chunk *chunk = *link;
    bool beyond = !chunk->pool || (release && chunk->pool->reserved > chunk->pool->threshold);
    if (chunk->state == IDLE && beyond) drop_chunk(link);
    else link = &chunk->next;
  }
}

void pools_settle(bool release) {
  if (!__atomic_load_n(&chunks, __ATOMIC_RELAXED)) return; /* no chunk, nothing to do; a race only delays it to the next call */
  pthread_mutex_lock(&lock);
  settle(release);
  pthread_mutex_unlock(&lock);
}

static struct chunk *reuse(CUmemoryPool pool, uint64_t bytes, const struct CUstream_st *stream) {
  struct chunk *best = NULL;
  for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
    bool free_here = chunk->state == IDLE || (chunk->state == PENDING && chunk->stream_id == stream->id);
    if (chunk->pool != pool || !free_here || chunk->bytes < bytes || chunk->bytes > bytes + bytes / 4) continue;
    if (!best || chunk->bytes < best->bytes) best = chunk;
  }
  return best;
}

static CUresult new_chunk(CUmemoryPool pool, uint64_t bytes, struct chunk **out) {
  struct chunk *chunk = calloc(1, sizeof *chunk);
  CUresult result;
  if (!chunk || (pool->max_bytes && pool->reserved + bytes > pool->max_bytes)) {
    free(chunk);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  result = memory_error(heap_alloc(&driver.node, pool, pool->card, SIM_POOL, bytes, &chunk->base));
  if (result != CUDA_SUCCESS) {
    free(chunk);
    return result;
  }
  chunk->pool = pool;
  chunk->bytes = bytes;
  chunk->next = chunks;
  __atomic_store_n(&chunks, chunk, __ATOMIC_RELAXED); /* guarded by the lock; see the look without it in pools_settle */
  pool->reserved = heap_backing(pool);
  if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
  *out = chunk;
  return CUDA_SUCCESS;
}

static CUresult take(CUmemoryPool pool, uint64_t bytes, struct CUstream_st *stream, uint64_t *out) {
  struct chunk *chunk;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  settle(false);
  chunk = reuse(pool, bytes, stream);
  if (!chunk) result = new_chunk(pool, bytes, &chunk);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    settle(true);
    result = new_chunk(pool, bytes, &chunk);
  }
  if (result == CUDA_SUCCESS) {
    chunk->state = USED;
    count_used(chunk, true);
    *out = chunk->base;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

/* What is still to be freed may be enough: wait for it, once. */
CUresult pool_take(CUmemoryPool pool, uint64_t bytes, struct CUstream_st *stream, uint64_t *out) {
  CUresult result = take(pool, bytes, stream, out);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  wait_context(stream->ctx);
  return take(pool, bytes, stream, out);
}

CUresult impl_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle) {
  struct CUstream_st *stream;
  uint64_t address = 0;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(pool, KIND_POOL) || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->capture) result = pool_take(pool, bytes, stream, &address);
  else if (pool->device < 0) return CUDA_ERROR_NOT_SUPPORTED;
  else result = graph_memory_capture(stream, pool->device, bytes, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult impl_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle) {
  struct CUstream_st *stream;
  CUmemoryPool pool;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&lock);
  pool = present_pool(stream->ctx->device);
  pthread_mutex_unlock(&lock);
  return pool ? impl_cuMemAllocFromPoolAsync(out, bytes, pool, handle) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The chunk of an address in use; a cuMemAlloc range becomes one. */
static struct chunk *find_used(uint64_t address) {
  struct range range;
  struct chunk *chunk;
  for (chunk = chunks; chunk; chunk = chunk->next) {
    if (chunk->base == address) return chunk->state == USED ? chunk : NULL;
  }
  if (!heap_find(address, &range) || range.base != address || range.host || range.class == SIM_VMM || ipc_is_opened(address)) return NULL;
  chunk = calloc(1, sizeof *chunk);
  if (!chunk) return NULL;
  *chunk = (struct chunk){.base = address, .bytes = range.size, .next = chunks};
  __atomic_store_n(&chunks, chunk, __ATOMIC_RELAXED);
  return chunk;
}

static void set_position(struct chunk *chunk, const struct CUstream_st *stream) {
  sim_lock(&driver.node);
  chunk->position = driver.node.node->streams[stream->sim].tail;
  sim_unlock(&driver.node);
}

static void free_later(struct chunk *chunk, const struct CUstream_st *stream) {
  set_position(chunk, stream);
  chunk->stream = stream->sim;
  chunk->stream_id = stream->id;
  chunk->state = PENDING;
  count_used(chunk, false);
}

CUresult impl_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  struct CUstream_st *stream;
  struct chunk *chunk;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->capture) return graph_memory_capture_free(stream, pointer);
  if (graph_memory_free(pointer, stream, &result)) return result;
  pthread_mutex_lock(&lock);
  chunk = find_used(pointer);
  if (chunk) free_later(chunk, stream);
  pthread_mutex_unlock(&lock);
  return chunk ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void pool_give(uint64_t address, struct CUstream_st *stream) {
  pthread_mutex_lock(&lock);
  free_later(find_used(address), stream);
  pthread_mutex_unlock(&lock);
}

void pool_later(struct CUstream_st *stream) {
  pthread_mutex_lock(&lock);
  for (struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
    if (chunk->state == PENDING && chunk->stream_id == stream->id && chunk->pool && chunk->pool == graphs[chunk->pool->device]) set_position(chunk, stream);
  }
  pthread_mutex_unlock(&lock);
}

bool pool_free_now(uint64_t address) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (struct chunk **link = &chunks; *link && !found; link = &(*link)->next) {
    if ((*link)->base != address) continue;
    found = true;
    if ((*link)->state == USED) count_used(*link, false);
    drop_chunk(link);
    break;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* Pools belong to the device and outlive contexts; only cuMemAlloc memory on its way to be freed goes with its context. */
void pools_end(const struct CUctx_st *ctx) {
  struct range range;
  pthread_mutex_lock(&lock);
  for (struct chunk **link = &chunks; *link;) {
    bool ours = !(*link)->pool && heap_find((*link)->base, &range) && range.owner == ctx;
    if (ours) drop_chunk(link);
    else link = &(*link)->next;
  }
  settle(true);
  pthread_mutex_unlock(&lock);
}

static CUresult check_location(CUmemLocation location) {
  struct sim_card *card;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return need_device(location.id, &card);
  return location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties) {
  CUresult result;
  bool on_card;
  if (!out || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  result = check_location(properties->location);
  if (result != CUDA_SUCCESS) return result;
  on_card = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (properties->handleTypes && !on_card) return CUDA_ERROR_NOT_SUPPORTED;
  *out = pool_make(on_card ? properties->location.id : -1, properties->maxSize);
  if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->exportable = properties->handleTypes != 0;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolDestroy(CUmemoryPool pool) {
  if (!handle_is(pool, KIND_POOL) || (pool->device >= 0 && pool == defaults[pool->device])) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (struct chunk **link = &chunks; *link;) {
    if ((*link)->pool != pool) link = &(*link)->next;
    else drop_chunk(link);
  }
  if (pool->device >= 0 && present[pool->device] == pool) present[pool->device] = NULL;
  handle_free(pool);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  if (!handle_is(pool, KIND_POOL)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  settle(false);
  for (struct chunk **link = &chunks; *link && pool->reserved > keep;) {
    if ((*link)->pool == pool && (*link)->state == IDLE) drop_chunk(link);
    else link = &(*link)->next;
  }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

static uint64_t *pool_number(CUmemoryPool pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &pool->used_high;
    default: return NULL;
  }
}

static int *pool_switch(CUmemoryPool pool, CUmemPool_attribute attribute) {
  bool known = attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES && attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  return known ? &pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] : NULL;
}

CUresult impl_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  if (!handle_is(pool, KIND_POOL) || !value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(cuuint64_t *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: pool->reserved_high = pool->reserved; return CUDA_SUCCESS; /* only 0 may be set */
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: pool->used_high = pool->used; return CUDA_SUCCESS;
    default: break;
  }
  if (!pool_switch(pool, attribute)) return CUDA_ERROR_INVALID_VALUE;
  *pool_switch(pool, attribute) = *(int *)value;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  if (!handle_is(pool, KIND_POOL) || !value) return CUDA_ERROR_INVALID_VALUE;
  pools_settle(false);
  if (pool_number(pool, attribute)) *(cuuint64_t *)value = *pool_number(pool, attribute);
  else if (pool_switch(pool, attribute)) *(int *)value = *pool_switch(pool, attribute);
  else return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  return handle_is(pool, KIND_POOL) && map && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
  if (!handle_is(pool, KIND_POOL) || !flags || !location) return CUDA_ERROR_INVALID_VALUE;
  *flags = location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

static CUresult device_pool(CUmemoryPool *out, CUdevice device, CUmemoryPool (*which)(int device)) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  *out = which(device);
  pthread_mutex_unlock(&lock);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult impl_cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) { return device_pool(out, device, default_pool); }
CUresult impl_cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) { return device_pool(out, device, present_pool); }

CUresult impl_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(pool, KIND_POOL) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  present[device] = pool;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
