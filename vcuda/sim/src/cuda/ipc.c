/* Memory and events between processes: cuIpc*, and pointers of exported pools. */
#include "ipc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"
#include "transfer.h"

#define MEMORY_MAGIC 0x314d454d43504953ull /* "SIPCMEM1", little endian */
#define EVENT_MAGIC 0x3154564543504953ull  /* "SIPCEVT1" */

struct memory_handle {
  uint64_t magic;
  struct heap_name name;
  uint64_t process; /* who exported it */
};
struct event_handle {
  uint64_t magic, serial;
  uint32_t index;
};
_Static_assert(sizeof(struct memory_handle) <= sizeof(CUipcMemHandle), "a memory handle is too large");
_Static_assert(sizeof(struct event_handle) <= sizeof(CUipcEventHandle), "an event handle is too large");

/* What this process has opened: once per context and share, however often it is asked for. */
struct opened {
  struct opened *next;
  struct CUctx_st *ctx;
  struct sim_share_name share;
  uint64_t base;
  unsigned count;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *opened;

static CUresult open_error(int error) {
  if (error == -ENOENT) return CUDA_ERROR_INVALID_HANDLE;
  return error < 0 ? CUDA_ERROR_MAP_FAILED : CUDA_SUCCESS;
}

CUresult impl_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr pointer) {
  struct memory_handle handle = {.magic = MEMORY_MAGIC, .process = driver.node.node->procs[driver.node.proc].token};
  struct CUctx_st *ctx;
  struct range range;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || !heap_find(pointer, &range) || range.class != SIM_LINEAR || range.host) return CUDA_ERROR_INVALID_VALUE;
  if (ipc_is_opened(range.base)) return CUDA_ERROR_INVALID_VALUE; /* another process's memory is not ours to export */
  result = memory_error(heap_share(&driver.node, pointer, &handle.name));
  if (result == CUDA_SUCCESS) memcpy(out, &handle, sizeof handle);
  return result;
}

static struct opened *find(const struct CUctx_st *ctx, uint64_t serial) {
  struct opened *entry = opened;
  while (entry && !(entry->ctx == ctx && entry->share.serial == serial)) entry = entry->next;
  return entry;
}

static CUresult open_first(struct CUctx_st *ctx, const struct heap_name *name, struct opened **out) {
  struct opened *entry = calloc(1, sizeof *entry);
  struct heap_name whole = *name;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  whole.offset = whole.size = 0; /* the block that it was cut from comes along */
  if (entry) result = open_error(heap_open(&driver.node, ctx, &whole, &entry->base));
  if (result != CUDA_SUCCESS) {
    free(entry);
    return result;
  }
  entry->ctx = ctx;
  entry->share = name->share;
  entry->next = opened;
  *out = opened = entry;
  return CUDA_SUCCESS;
}

CUresult impl_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
  struct memory_handle memory;
  struct CUctx_st *ctx;
  struct opened *entry;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  memcpy(&memory, &handle, sizeof memory);
  if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  if (memory.magic != MEMORY_MAGIC) return CUDA_ERROR_INVALID_HANDLE;
  if (memory.process == driver.node.node->procs[driver.node.proc].token) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  entry = find(ctx, memory.name.share.serial);
  if (!entry) result = open_first(ctx, &memory.name, &entry);
  if (result == CUDA_SUCCESS) {
    entry->count++;
    *out = entry->base + memory.name.offset;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult impl_cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
  return impl_cuIpcOpenMemHandle_v2(out, handle, flags);
}

bool ipc_is_opened(uint64_t base) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (struct opened *entry = opened; entry && !found; entry = entry->next) found = entry->base == base;
  pthread_mutex_unlock(&lock);
  return found;
}

CUresult impl_cuIpcCloseMemHandle(CUdeviceptr pointer) {
  struct opened **link, *entry;
  struct CUctx_st *ctx;
  struct range range;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  result = wait_context(ctx);
  pthread_mutex_lock(&lock);
  for (link = &opened; (entry = *link); link = &entry->next) {
    if (heap_find(pointer, &range) && range.base == entry->base) break;
  }
  if (entry && --entry->count == 0) {
    *link = entry->next;
    heap_free(&driver.node, entry->base);
    free(entry);
  }
  pthread_mutex_unlock(&lock);
  return result == CUDA_SUCCESS && !entry ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Its memory goes with the heap's. */
void ipc_end(const struct CUctx_st *ctx) {
  pthread_mutex_lock(&lock);
  for (struct opened **link = &opened; *link;) {
    struct opened *entry = *link;
    if (entry->ctx != ctx) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    free(entry);
  }
  pthread_mutex_unlock(&lock);
}

CUresult impl_cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event) {
  struct event_handle handle = {.magic = EVENT_MAGIC};
  if (!handle_is(event, KIND_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !(event->flags & CU_EVENT_INTERPROCESS)) return CUDA_ERROR_INVALID_VALUE;
  handle.index = event->sim;
  handle.serial = event->serial;
  memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

CUresult impl_cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  struct event_handle shared;
  struct CUctx_st *ctx;
  CUevent event;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  memcpy(&shared, &handle, sizeof shared);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (shared.magic != EVENT_MAGIC || shared.index >= SIM_MAX_EVENTS) return CUDA_ERROR_INVALID_HANDLE;
  event = handle_new(KIND_EVENT, sizeof *event);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  event->ctx = ctx;
  event->sim = shared.index;
  event->serial = shared.serial;
  event->opened = true;
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  if (!event_is(event)) {
    handle_free(event);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = event;
  return CUDA_SUCCESS;
}

/* Pointers of exported pools: the same memory, another handle. */
struct pool_pointer {
  uint64_t magic;
  struct heap_name name;
};
_Static_assert(sizeof(struct pool_pointer) <= sizeof(CUmemPoolPtrExportData), "a pool pointer is too large");

CUresult ipc_export_pointer(CUmemPoolPtrExportData *out, CUdeviceptr pointer) {
  struct pool_pointer shared = {.magic = MEMORY_MAGIC};
  CUresult result = memory_error(heap_share(&driver.node, pointer, &shared.name));
  if (result == CUDA_SUCCESS) memcpy(out, &shared, sizeof shared);
  return result;
}

CUresult ipc_import_pointer(CUdeviceptr *out, const void *owner, uint32_t card, const CUmemPoolPtrExportData *data) {
  struct pool_pointer shared;
  uint64_t address = 0;
  CUresult result;
  memcpy(&shared, data, sizeof shared);
  if (shared.magic != MEMORY_MAGIC || shared.name.card != card) return CUDA_ERROR_INVALID_VALUE;
  result = open_error(heap_open(&driver.node, owner, &shared.name, &address));
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}
