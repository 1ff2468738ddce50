/* Bytes of CUDA arrays: format x channels x extent, all layers, faces and mip levels. */
#ifndef VCUDA_ARRAYS_H
#define VCUDA_ARRAYS_H

#include "driver.h"

#include <stdint.h>

/* Bytes of one array; saturates at UINT64_MAX. Extents of 0 count as 1, as in a 1-D or 2-D array. */
uint64_t array_bytes(CUarray_format format, unsigned int channels, uint64_t width, uint64_t height, uint64_t depth);

/* Bytes of all `levels` of a mipmapped array, or of an array of one. Layers and faces keep their number from level to level. */
uint64_t array_described_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels);

#endif
