/*
 * Memory of a graphics API, imported. There is no Vulkan here: tesseraSimGraphicsMemory stands for an allocation that one has made and
 * exported; it stays on the card until its maker has closed what it holds, and everything that was imported and mapped is gone.
 */
#include <errno.h>
#include <unistd.h>

#include "array.h"
#include "heap.h"
#include "impl.h"
#include "tessera_sim.h"

struct CUextMemory_st {
  struct head head;
  struct sim_share_name name;
  uint64_t bytes; /* as the program says, at most what there is */
};

static bool is_external(const struct CUextMemory_st *memory) { return handle_is(memory, KIND_EXTERNAL); }

/* On success the descriptor is the driver's. */
CUresult impl_cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d) {
  struct CUextMemory_st *memory;
  struct sim_share_name name;
  struct sim_share share;
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || !d || d->size == 0 || (d->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED)) return CUDA_ERROR_INVALID_VALUE;
  if (d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
  if (sim_share_of_fd(&driver.node, d->handle.fd, &name) < 0 || sim_share_join(&driver.node, name, &share) < 0) return CUDA_ERROR_INVALID_HANDLE;
  memory = share.class == SIM_GRAPHICS && share.card == ctx->card && d->size <= share.bytes ? handle_new(KIND_EXTERNAL, sizeof *memory) : NULL;
  if (!memory) {
    sim_share_drop(&driver.node, name.index);
    return CUDA_ERROR_INVALID_VALUE;
  }
  memory->name = name;
  memory->bytes = d->size;
  close(d->handle.fd);
  *out = memory;
  return CUDA_SUCCESS;
}

/* What was mapped stays, and keeps the memory. */
CUresult impl_cuDestroyExternalMemory(CUexternalMemory memory) {
  if (!is_external(memory)) return CUDA_ERROR_INVALID_HANDLE;
  sim_share_drop(&driver.node, memory->name.index);
  handle_free(memory);
  return CUDA_SUCCESS;
}

static CUresult map(const struct CUextMemory_st *memory, uint64_t offset, uint64_t bytes, uint64_t *out) {
  struct heap_name name = {.share = memory->name, .offset = offset, .size = bytes};
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (bytes == 0 || offset > memory->bytes || bytes > memory->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  return heap_open(&driver.node, ctx, &name, out) < 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult impl_cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d) {
  uint64_t address = 0;
  CUresult result;
  if (!is_external(memory)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !d || d->flags) return CUDA_ERROR_INVALID_VALUE;
  result = map(memory, d->offset, d->size, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult impl_cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d) {
  CUmipmappedArray mipmap;
  CUresult result;
  uint64_t bytes, base = 0;
  if (!is_external(memory)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !d || !(mipmap = mipmap_describe(&d->arrayDesc, d->numLevels, &bytes))) return CUDA_ERROR_INVALID_VALUE;
  result = map(memory, d->offset, bytes, &base);
  if (result != CUDA_SUCCESS) {
    mipmap_drop(mipmap);
    return result;
  }
  mipmap_place(mipmap, base);
  *out = mipmap;
  return CUDA_SUCCESS;
}

SIM_EXPORT int tesseraSimGraphicsMemory(int device, uint64_t bytes, int *fd) {
  uint64_t whole = (bytes + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE;
  struct sim_card *card;
  uint32_t index;
  if (!driver.initialised || need_device(device, &card) != CUDA_SUCCESS || !fd) return -1;
  if (sim_charge(&driver.node, card->index, SIM_GRAPHICS, whole) < 0) return -1;
  if (sim_share_new(&driver.node, card->index, SIM_GRAPHICS, whole, &index) < 0) {
    sim_discharge(&driver.node, card->index, SIM_GRAPHICS, whole);
    return -1;
  }
  *fd = sim_share_export(&driver.node, index);
  sim_share_drop(&driver.node, index); /* the descriptor is what its maker holds */
  return *fd < 0 ? -1 : 0;
}
