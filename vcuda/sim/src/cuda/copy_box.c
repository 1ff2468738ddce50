/* Copies of two and three dimensions, and those with arrays. */
#include <string.h>

#include "array.h"
#include "heap.h"
#include "impl.h"
#include "transfer.h"

struct side {
  uint64_t base, pitch, slice;
  bool device;
};

static CUresult array_side(CUarray array, struct side *side) {
  if (!handle_is(array, KIND_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  *side = (struct side){.base = array->base, .pitch = array->pitch, .slice = array->pitch * array->rows, .device = true};
  return CUDA_SUCCESS;
}

static CUresult find_side(CUmemorytype type, uint64_t host, uint64_t device, CUarray array, uint64_t pitch, uint64_t height,
                          struct side *side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST: *side = (struct side){.base = host, .pitch = pitch, .slice = pitch * height}; break;
    case CU_MEMORYTYPE_DEVICE: *side = (struct side){.base = device, .pitch = pitch, .slice = pitch * height, .device = true}; break;
    case CU_MEMORYTYPE_UNIFIED: *side = (struct side){.base = device, .pitch = pitch, .slice = pitch * height}; break;
    case CU_MEMORYTYPE_ARRAY: return array_side(array, side);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return side->base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define HOST(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult box_of(const CUDA_MEMCPY3D *p, struct move *move) {
  struct side to, from;
  CUresult result;
  *move = (struct move){.kind = MOVE_COPY};
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0) return CUDA_SUCCESS;
  result = find_side(p->dstMemoryType, HOST(p->dstHost), p->dstDevice, p->dstArray, p->dstPitch ? p->dstPitch : p->WidthInBytes,
                     p->dstHeight ? p->dstHeight : p->Height, &to);
  if (result != CUDA_SUCCESS) return result;
  result = find_side(p->srcMemoryType, HOST(p->srcHost), p->srcDevice, p->srcArray, p->srcPitch ? p->srcPitch : p->WidthInBytes,
                     p->srcHeight ? p->srcHeight : p->Height, &from);
  if (result != CUDA_SUCCESS) return result;
  if (p->WidthInBytes > to.pitch || p->WidthInBytes > from.pitch) return CUDA_ERROR_INVALID_VALUE;
  *move = (struct move){.kind = MOVE_COPY,
                       .to = to.base + p->dstZ * to.slice + p->dstY * to.pitch + p->dstXInBytes,
                       .from = from.base + p->srcZ * from.slice + p->srcY * from.pitch + p->srcXInBytes,
                       .to_pitch = to.pitch, .to_slice = to.slice, .from_pitch = from.pitch, .from_slice = from.slice,
                       .width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
  if (to.device && !heap_covers(move->to, (p->Depth - 1) * to.slice + (p->Height - 1) * to.pitch + p->WidthInBytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.device && !heap_covers(move->from, (p->Depth - 1) * from.slice + (p->Height - 1) * from.pitch + p->WidthInBytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool wait) {
  struct move move;
  CUresult result = box_of(p, &move);
  return result == CUDA_SUCCESS ? copy_box(stream, &move, wait) : result;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool wait) {
  CUDA_MEMCPY3D box;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  box = (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcMemoryType = p->srcMemoryType, .srcHost = p->srcHost,
                        .srcDevice = p->srcDevice, .srcArray = p->srcArray, .srcPitch = p->srcPitch,
                        .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost,
                        .dstDevice = p->dstDevice, .dstArray = p->dstArray, .dstPitch = p->dstPitch,
                        .WidthInBytes = p->WidthInBytes, .Height = p->Height, .Depth = 1};
  return copy_3d(&box, stream, wait);
}

CUresult impl_cuMemcpy3D_v2(const CUDA_MEMCPY3D *box) { return copy_3d(box, NULL, true); }
CUresult impl_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *box, CUstream stream) { return copy_3d(box, stream, false); }
CUresult impl_cuMemcpy2D_v2(const CUDA_MEMCPY2D *box) { return copy_2d(box, NULL, true); }
CUresult impl_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *box) { return copy_2d(box, NULL, true); }
CUresult impl_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *box, CUstream stream) { return copy_2d(box, stream, false); }

/* One row of an array from an offset in bytes; the other side is linear. */
static CUresult copy_array(CUarray array, size_t offset, uint64_t other, size_t bytes, bool to_array, CUstream stream, bool wait) {
  struct move move = {.kind = MOVE_COPY, .width = bytes, .height = 1, .depth = 1};
  if (!handle_is(array, KIND_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  if (!heap_covers(array->base + offset, bytes) || !other) return CUDA_ERROR_INVALID_VALUE;
  move.to = to_array ? array->base + offset : other;
  move.from = to_array ? other : array->base + offset;
  return copy_box(stream, &move, wait);
}

CUresult impl_cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return copy_array(to, offset, from, bytes, true, NULL, true);
}
CUresult impl_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return copy_array(from, offset, to, bytes, false, NULL, true);
}
CUresult impl_cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes) {
  return copy_array(to, offset, HOST(from), bytes, true, NULL, true);
}
CUresult impl_cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes) {
  return copy_array(from, offset, HOST(to), bytes, false, NULL, true);
}
CUresult impl_cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream) {
  return copy_array(to, offset, HOST(from), bytes, true, stream, false);
}
CUresult impl_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream) {
  return copy_array(from, offset, HOST(to), bytes, false, stream, false);
}
CUresult impl_cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) {
  if (!handle_is(from, KIND_ARRAY) || !heap_covers(from->base + from_offset, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy_array(to, to_offset, from->base + from_offset, bytes, true, NULL, true);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool wait) {
  CUDA_MEMCPY3D box;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  box = (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcZ = p->srcZ, .srcMemoryType = p->srcMemoryType,
                        .srcHost = p->srcHost, .srcDevice = p->srcDevice, .srcArray = p->srcArray, .srcPitch = p->srcPitch,
                        .srcHeight = p->srcHeight, .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstZ = p->dstZ,
                        .dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost, .dstDevice = p->dstDevice, .dstArray = p->dstArray,
                        .dstPitch = p->dstPitch, .dstHeight = p->dstHeight, .WidthInBytes = p->WidthInBytes, .Height = p->Height,
                        .Depth = p->Depth};
  return copy_3d(&box, stream, wait);
}

CUresult impl_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *box) { return copy_3d_peer(box, NULL, true); }
CUresult impl_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *box, CUstream stream) { return copy_3d_peer(box, stream, false); }
