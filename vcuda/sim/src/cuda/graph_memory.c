#define _GNU_SOURCE
#include "graph_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "capture.h"
#include "heap.h"
#include "impl.h"
#include "pool.h"

struct allocation {
  struct allocation *next;
  uint64_t address, bytes;
  int device;
  unsigned holds;  /* nodes */
  uint64_t behind; /* the pool's memory; 0: none */
  bool freed_in;   /* a node of its own graph frees it */
  bool freed_out;  /* a node of another one */
  const void *graph;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the pools' */
static struct allocation *all;

static struct allocation *find(uint64_t address) {
  struct allocation *entry = all;
  while (entry && entry->address != address) entry = entry->next;
  return entry;
}

static void drop_unused(struct allocation *entry) {
  struct allocation **link = &all;
  struct range range;
  if (entry->holds || entry->behind) return;
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  heap_forget(entry->address, &range);
  heap_unreserve((void *)(uintptr_t)entry->address, (entry->bytes + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE);
  free(entry);
}

void graph_memory_hold(uint64_t address) {
  pthread_mutex_lock(&lock);
  find(address)->holds++;
  pthread_mutex_unlock(&lock);
}

void graph_memory_drop(uint64_t address) {
  pthread_mutex_lock(&lock);
  find(address)->holds--;
  drop_unused(find(address));
  pthread_mutex_unlock(&lock);
}

/* An address for good; copies to it are checked against the heap's ranges when they become nodes. */
static CUresult reserve(int device, uint64_t bytes, uint64_t *out) {
  uint64_t whole = (bytes + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE;
  struct allocation *entry = calloc(1, sizeof *entry);
  void *room = entry && bytes && bytes <= 1ull << 46 ? heap_reserve(whole, HEAP_PAGE, NULL) : NULL;
  struct range range = {.base = (uint64_t)(uintptr_t)room, .size = bytes, .card = driver.visible[device], .class = SIM_POOL};
  if (!room || mprotect(room, whole, PROT_READ | PROT_WRITE) < 0 || heap_note(&range) < 0) {
    if (room) heap_unreserve(room, whole);
    free(entry);
    return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  }
  *entry = (struct allocation){.address = range.base, .bytes = bytes, .device = device};
  pthread_mutex_lock(&lock);
  entry->next = all;
  all = entry;
  pthread_mutex_unlock(&lock);
  *out = range.base;
  return CUDA_SUCCESS;
}

/* ---- physical memory ---- */

static void let_go(struct allocation *entry, struct CUstream_st *stream) {
  pool_give(entry->behind, stream);
  madvise((void *)(uintptr_t)entry->address, (entry->bytes + 4095) / 4096 * 4096, MADV_DONTNEED);
  entry->behind = 0;
}

/* This node or the first of the kind behind it, in the order in which they run. */
static CUgraphNode next(CUgraphNode node, enum work_kind kind) {
  while (node && (node->work.kind != kind || node->disabled)) node = node->next;
  return node;
}

static CUresult check_live(CUgraphExec exec, struct CUstream_st *stream) {
  bool frees = (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (CUgraphNode node = next(exec->graph->nodes, WORK_ALLOC); node; node = next(node->next, WORK_ALLOC)) {
    struct allocation *entry = find(node->work.memory);
    if (!entry->behind) continue;
    if (!frees) return CUDA_ERROR_INVALID_VALUE;
    let_go(entry, stream);
  }
  return CUDA_SUCCESS;
}

/* What one node frees the next may have: in this stream at once, as everywhere. */
static CUresult fill(CUgraphExec exec, struct CUstream_st *stream) {
  for (CUgraphNode node = exec->graph->nodes; node; node = node->next) {
    struct allocation *entry = node->work.kind == WORK_ALLOC || node->work.kind == WORK_FREE ? find(node->work.memory) : NULL;
    CUresult result = CUDA_SUCCESS;
    if (!entry || node->disabled) continue;
    if (node->work.kind == WORK_ALLOC) result = pool_take(pool_of_graphs(entry->device), entry->bytes, stream, &entry->behind);
    else if (entry->freed_in) let_go(entry, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

static void empty(CUgraphExec exec, struct CUstream_st *stream) {
  for (CUgraphNode node = next(exec->graph->nodes, WORK_ALLOC); node; node = next(node->next, WORK_ALLOC)) {
    struct allocation *entry = find(node->work.memory);
    if (entry->behind) let_go(entry, stream);
  }
}

bool graph_memory_in(CUgraph graph) { return next(graph->nodes, WORK_ALLOC) || next(graph->nodes, WORK_FREE); }

CUresult graph_memory_begin(CUgraphExec exec, struct CUstream_st *stream) {
  CUresult result;
  pthread_mutex_lock(&lock);
  result = check_live(exec, stream);
  if (result == CUDA_SUCCESS) {
    result = fill(exec, stream);
    if (result != CUDA_SUCCESS) empty(exec, stream);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

void graph_memory_end(CUgraphExec exec, struct CUstream_st *stream) {
  if (!graph_memory_in(exec->graph)) return;
  pthread_mutex_lock(&lock);
  for (CUgraphNode node = next(exec->graph->nodes, WORK_FREE); node; node = next(node->next, WORK_FREE)) {
    struct allocation *entry = find(node->work.memory);
    if (entry && entry->behind && !entry->freed_in) let_go(entry, stream);
  }
  pthread_mutex_unlock(&lock);
  pool_later(stream); /* what this launch has freed was in use until its end */
}

CUresult graph_memory_upload(CUgraphExec exec, struct CUstream_st *stream) {
  CUresult result;
  pthread_mutex_lock(&lock);
  result = fill(exec, stream);
  empty(exec, stream);
  pthread_mutex_unlock(&lock);
  return result;
}

bool graph_memory_free(uint64_t address, struct CUstream_st *stream, CUresult *result) {
  struct allocation *entry;
  pthread_mutex_lock(&lock);
  entry = find(address);
  if (entry) {
    *result = entry->behind && !entry->freed_in ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (*result == CUDA_SUCCESS) let_go(entry, stream);
    drop_unused(entry);
  }
  pthread_mutex_unlock(&lock);
  return entry != NULL;
}

/* ---- nodes ---- */

/* Once only: in its own graph, or in others. */
static bool may_free(uint64_t address, const void *graph) {
  struct allocation *entry;
  bool may;
  pthread_mutex_lock(&lock);
  entry = find(address);
  may = entry && !entry->freed_in && !(entry->freed_out && entry->graph == graph);
  if (may && entry->graph == graph) entry->freed_in = true;
  else if (may) entry->freed_out = true;
  pthread_mutex_unlock(&lock);
  return may;
}

static void belongs_to(uint64_t address, const void *graph) {
  pthread_mutex_lock(&lock);
  find(address)->graph = graph;
  pthread_mutex_unlock(&lock);
}

CUresult graph_memory_capture(struct CUstream_st *stream, int device, uint64_t bytes, uint64_t *out) {
  struct work work = {.kind = WORK_ALLOC};
  CUresult result = reserve(device, bytes, &work.memory);
  if (result == CUDA_SUCCESS) result = capture_work(stream, &work);
  if (result != CUDA_SUCCESS) return result;
  belongs_to(work.memory, capture_graph(stream));
  *out = work.memory;
  return CUDA_SUCCESS;
}

CUresult graph_memory_capture_free(struct CUstream_st *stream, uint64_t address) {
  struct work work = {.kind = WORK_FREE, .memory = address};
  return may_free(address, capture_graph(stream)) ? capture_work(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
  struct work work = {.kind = WORK_ALLOC};
  struct sim_card *card;
  CUresult result;
  if (!out || !handle_is(graph, KIND_GRAPH) || !params || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || params->poolProps.handleTypes) return CUDA_ERROR_NOT_SUPPORTED;
  result = need_device(params->poolProps.location.id, &card);
  if (result == CUDA_SUCCESS) result = reserve(params->poolProps.location.id, params->bytesize, &work.memory);
  if (result == CUDA_SUCCESS) result = graph_add(graph, before, count, &work, out);
  if (result != CUDA_SUCCESS) return result;
  belongs_to(work.memory, graph);
  params->dptr = work.memory;
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count, CUdeviceptr pointer) {
  struct work work = {.kind = WORK_FREE, .memory = pointer};
  if (!out || !handle_is(graph, KIND_GRAPH) || !may_free(pointer, graph)) return CUDA_ERROR_INVALID_VALUE;
  return graph_add(graph, before, count, &work, out);
}

CUresult impl_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out) {
  const struct allocation *entry;
  if (!out || !handle_is(node, KIND_NODE) || node->work.kind != WORK_ALLOC) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  entry = find(node->work.memory);
  *out = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = entry->device}},
                                      .bytesize = entry->bytes, .dptr = entry->address};
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult impl_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out) {
  if (!out || !handle_is(node, KIND_NODE) || node->work.kind != WORK_FREE) return CUDA_ERROR_INVALID_VALUE;
  *out = node->work.memory;
  return CUDA_SUCCESS;
}

/* ---- the allocator ---- */

CUresult impl_cuDeviceGraphMemTrim(CUdevice device) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  return result == CUDA_SUCCESS ? impl_cuMemPoolTrimTo(pool_of_graphs(device), 0) : result;
}

static CUmemPool_attribute pool_attribute(CUgraphMem_attribute attribute) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    default: return CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
  }
}

CUresult impl_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  return attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH ? CUDA_ERROR_INVALID_VALUE
                                                         : impl_cuMemPoolGetAttribute(pool_of_graphs(device), pool_attribute(attribute), value);
}

CUresult impl_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
  struct sim_card *card;
  CUresult result = need_device(device, &card);
  if (result != CUDA_SUCCESS) return result;
  if (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  return impl_cuMemPoolSetAttribute(pool_of_graphs(device), pool_attribute(attribute), value);
}
