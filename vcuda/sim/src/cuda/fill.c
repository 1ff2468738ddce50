/* cuMemset and its family. As on hardware, none waits for the fill. */
#include "heap.h"
#include "impl.h"
#include "transfer.h"

bool fill_is_valid(const struct move *move) {
  if (move->to % move->element != 0 || (move->height > 1 && move->to_pitch < move->width)) return false;
  return heap_covers(move->to, (move->height - 1) * move->to_pitch + move->width);
}

static CUresult fill(CUstream handle, uint64_t to, uint64_t pitch, uint32_t value, uint32_t element, uint64_t count, uint64_t rows) {
  struct CUstream_st *stream;
  struct work work = {.kind = WORK_MOVE, .engine = SIM_OP_FILL};
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (count == 0 || rows == 0) return CUDA_SUCCESS;
  if (element < 4) value &= (1u << (8 * element)) - 1;
  work.move = (struct move){.kind = MOVE_FILL, .to = to, .to_pitch = pitch, .width = count * element, .height = rows, .depth = 1,
                            .value = value, .element = element};
  if (!fill_is_valid(&work.move)) return CUDA_ERROR_INVALID_VALUE;
  work.cost_ns = fill_ns(&card_of(stream->ctx)->model, move_bytes(&work.move));
  return work_submit(stream, &work, NULL);
}

CUresult impl_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return fill(NULL, to, 0, value, 1, count, 1); }
CUresult impl_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) { return fill(NULL, to, 0, value, 2, count, 1); }
CUresult impl_cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) { return fill(NULL, to, 0, value, 4, count, 1); }
CUresult impl_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 1, count, 1);
}
CUresult impl_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 2, count, 1);
}
CUresult impl_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(stream, to, 0, value, 4, count, 1);
}
CUresult impl_cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill(NULL, to, pitch, value, 1, width, height);
}
CUresult impl_cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill(NULL, to, pitch, value, 2, width, height);
}
CUresult impl_cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill(NULL, to, pitch, value, 4, width, height);
}
CUresult impl_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 1, width, height);
}
CUresult impl_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 2, width, height);
}
CUresult impl_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 4, width, height);
}
