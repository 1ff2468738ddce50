#include "arrays.h"

static unsigned int element_bits(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    default:
        return 32; /* the widest element; for packed and compressed formats an upper bound */
    }
}

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t at_least_one(uint64_t extent) {
    return extent ? extent : 1;
}

uint64_t array_bytes(CUarray_format format, unsigned int channels, uint64_t width, uint64_t height, uint64_t depth) {
    uint64_t row = times(times(width, at_least_one(channels)), element_bits(format) / 8);
    return times(times(row, at_least_one(height)), at_least_one(depth));
}

uint64_t array_mipmapped_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels) {
    uint64_t width = descriptor->Width, height = descriptor->Height, depth = descriptor->Depth, sum = 0;
    int fixed_depth = (descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    for (unsigned int level = 0; level < levels && level < 64; level++) {
        uint64_t bytes = array_bytes(descriptor->Format, descriptor->NumChannels, at_least_one(width), height, depth);
        if (__builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
        width /= 2;
        height /= 2;
        depth = fixed_depth ? depth : depth / 2;
    }
    return sum;
}
