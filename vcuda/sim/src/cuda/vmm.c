/*
 * Virtual memory management: physical memory (a part of one sparse file of the process, or a share of the node when it may be
 * exported) mapped to reserved addresses. Physical memory stays charged until it is released and nothing maps it, in any process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap.h"
#include "impl.h"
#include "transfer.h"

#define ARENA_BYTES (1ll << 46)

struct physical {
  struct head head;
  uint32_t card;
  uint32_t share; /* 1 + index of the share; 0: in the arena */
  uint64_t offset, bytes;
  unsigned references; /* the program's, and one for each mapping */
  CUmemAllocationProp properties;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int arena = -1;
static uint64_t arena_end;

static struct physical *physical_of(CUmemGenericAllocationHandle handle) {
  struct physical *physical = (struct physical *)(uintptr_t)handle;
  return handle_is(physical, KIND_PHYSICAL) ? physical : NULL;
}

static bool open_arena(void) {
  if (arena >= 0) return true;
  arena = memfd_create("tessera-sim", MFD_CLOEXEC);
  if (arena >= 0 && ftruncate(arena, ARENA_BYTES) == 0) return true;
  if (arena >= 0) close(arena);
  arena = -1;
  return false;
}

static bool on_card(const CUmemAllocationProp *p) { return p->location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

static void unref(struct physical *physical) {
  if (--physical->references > 0) return;
  if (physical->share) {
    sim_share_drop(&driver.node, physical->share - 1);
  } else if (fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical->offset, (off_t)physical->bytes) == 0 &&
             on_card(&physical->properties)) {
    sim_discharge(&driver.node, physical->card, SIM_VMM, physical->bytes);
  }
  handle_free(physical);
}

/* *card: where the memory lies, NULL for host memory. */
static CUresult check_properties(const CUmemAllocationProp *p, struct sim_card **card) {
  *card = NULL;
  if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (p->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (on_card(p)) return need_device(p->location.id, card);
  if (p->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA || p->location.id != 0) return CUDA_ERROR_INVALID_VALUE;
  return p->requestedHandleTypes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS; /* host memory of this process only */
}

CUresult impl_cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option) {
  struct sim_card *card;
  CUresult result;
  (void)option; /* smallest and recommended are the same */
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  result = check_properties(properties, &card);
  if (result == CUDA_SUCCESS) *out = HEAP_PAGE;
  return result;
}

static bool place(struct physical *physical, const struct sim_card *card) {
  uint32_t index;
  if (!physical->properties.requestedHandleTypes) {
    if (!open_arena() || arena_end + physical->bytes > (uint64_t)ARENA_BYTES) return false;
    physical->offset = arena_end;
    arena_end += physical->bytes;
    return true;
  }
  if (sim_share_new(&driver.node, card->index, SIM_VMM, physical->bytes, &index) < 0) return false;
  physical->share = index + 1;
  physical->offset = driver.node.node->shares[index].offset;
  return true;
}

CUresult impl_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *properties, unsigned long long flags) {
  struct sim_card *card;
  struct physical *physical;
  CUresult result = check_properties(properties, &card);
  if (result != CUDA_SUCCESS) return result;
  if (!out || flags || bytes == 0 || bytes % HEAP_PAGE) return CUDA_ERROR_INVALID_VALUE;
  if (card && sim_charge(&driver.node, card->index, SIM_VMM, bytes) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  physical = handle_new(KIND_PHYSICAL, sizeof *physical);
  pthread_mutex_lock(&lock);
  if (physical) {
    physical->card = card ? card->index : SIM_NONE;
    physical->bytes = bytes;
    physical->references = 1;
    physical->properties = *properties;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  }
  if (!physical || !place(physical, card)) result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  if (result == CUDA_SUCCESS) return result;
  if (physical) handle_free(physical);
  if (card) sim_discharge(&driver.node, card->index, SIM_VMM, bytes);
  return result;
}

CUresult impl_cuMemRelease(CUmemGenericAllocationHandle handle) {
  struct physical *physical = physical_of(handle);
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  unref(physical);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult impl_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  void *address;
  if (!out || flags || bytes == 0 || bytes % HEAP_PAGE || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
  address = heap_reserve(bytes, alignment > HEAP_PAGE ? alignment : HEAP_PAGE, (void *)(uintptr_t)hint);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (uint64_t)(uintptr_t)address;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  if (!address || bytes == 0 || bytes % HEAP_PAGE) return CUDA_ERROR_INVALID_VALUE;
  heap_unreserve((void *)(uintptr_t)address, bytes);
  return CUDA_SUCCESS;
}

/* Until cuMemSetAccess the mapping is there but may not be touched. */
CUresult impl_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  struct physical *physical = physical_of(handle);
  struct range range, other;
  void *mapped;
  if (!physical || !address || address % HEAP_PAGE || bytes == 0 || bytes % HEAP_PAGE || flags) return CUDA_ERROR_INVALID_VALUE;
  if (offset % HEAP_PAGE || offset > physical->bytes || bytes > physical->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  if (heap_find(address, &other) || heap_find(address + bytes - 1, &other)) return CUDA_ERROR_INVALID_VALUE;
  range = (struct range){.base = address, .size = bytes, .owner = physical, .card = physical->card, .class = SIM_VMM,
                         .host = physical->card == SIM_NONE};
  mapped = mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                physical->share ? driver.node.map_fd : arena, (off_t)(physical->offset + offset));
  if (mapped == MAP_FAILED || heap_note(&range) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  physical->references++;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

/* Whole mappings only, one or several side by side. */
CUresult impl_cuMemUnmap(CUdeviceptr address, size_t bytes) {
  uint64_t end = address + bytes;
  struct range range;
  while (address < end) {
    if (!heap_find(address, &range) || range.base != address || range.class != SIM_VMM || range.base + range.size > end) return CUDA_ERROR_INVALID_VALUE;
    heap_forget(address, &range);
    mmap((void *)(uintptr_t)address, range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pthread_mutex_lock(&lock);
    unref((struct physical *)(uintptr_t)range.owner);
    pthread_mutex_unlock(&lock);
    address += range.size;
  }
  return CUDA_SUCCESS;
}

static int protection(CUmemAccess_flags flags) {
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return PROT_READ | PROT_WRITE;
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_NONE;
}

CUresult impl_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descriptions, size_t count) {
  int wanted = PROT_NONE;
  if (!descriptions || count == 0 || bytes == 0 || !heap_covers(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) wanted |= protection(descriptions[i].flags);
  return mprotect((void *)(uintptr_t)address, bytes, wanted) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
  struct range range;
  if (!flags || !location || !heap_find(address, &range) || range.class != SIM_VMM) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out, CUmemGenericAllocationHandle handle) {
  struct physical *physical = physical_of(handle);
  if (!out || !physical) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->properties;
  return CUDA_SUCCESS;
}

CUresult impl_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  struct range range;
  struct physical *physical;
  if (!out || !heap_find((uint64_t)(uintptr_t)address, &range) || range.class != SIM_VMM) return CUDA_ERROR_INVALID_VALUE;
  physical = (struct physical *)(uintptr_t)range.owner;
  pthread_mutex_lock(&lock);
  physical->references++;
  pthread_mutex_unlock(&lock);
  *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}

static CUresult check_type(CUmemAllocationHandleType type, unsigned long long flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult impl_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  struct physical *physical = physical_of(handle);
  CUresult result = check_type(type, flags);
  int fd;
  if (result != CUDA_SUCCESS) return result;
  if (!out || !physical || !physical->share) return CUDA_ERROR_INVALID_VALUE;
  fd = sim_share_export(&driver.node, physical->share - 1);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)out = fd;
  return CUDA_SUCCESS;
}

static int visible_device(uint32_t card) {
  for (int i = 0; i < driver.count; i++) {
    if (driver.visible[i] == card) return i;
  }
  return -1;
}

/* Each import is paired with a release of its own. */
CUresult impl_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared, CUmemAllocationHandleType type) {
  struct sim_share_name name;
  struct sim_share share;
  struct physical *physical;
  CUresult result = check_type(type, 0);
  if (result != CUDA_SUCCESS) return result;
  if (!out || sim_share_of_fd(&driver.node, (int)(intptr_t)shared, &name) < 0) return CUDA_ERROR_INVALID_VALUE;
  if (sim_share_join(&driver.node, name, &share) < 0) return CUDA_ERROR_INVALID_VALUE;
  physical = visible_device(share.card) >= 0 ? handle_new(KIND_PHYSICAL, sizeof *physical) : NULL;
  if (!physical) {
    sim_share_drop(&driver.node, name.index);
    return visible_device(share.card) < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical->card = share.card;
  physical->share = name.index + 1;
  physical->offset = share.offset;
  physical->bytes = share.bytes;
  physical->references = 1;
  physical->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = visible_device(share.card)}};
  *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}
